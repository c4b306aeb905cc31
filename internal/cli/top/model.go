package top

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/internal/cli/instances"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
)

// topModel is the overview on a screen. It does nothing by itself: what it is told comes as
// messages, and what it wants to know it asks for with commands.
type topModel struct {
	ctx      context.Context
	w        *watcher
	interval time.Duration
	colours  bool

	width, height int
	overview      *overview // nil until the first look
	err           error     // of the last look
	chosen        abide.Ref // the instance under the cursor, which stays when others come

	detail *topDetail // what is shown instead of the overview, or nil
}

// topDetail is an instance that is shown.
type topDetail struct {
	ref    abide.Ref
	lines  []string
	err    error
	scroll int
}

// Messages.
type (
	tickMsg     struct{}
	overviewMsg struct {
		o   overview
		err error
	}
	detailMsg struct {
		ref   abide.Ref
		lines []string
		err   error
	}
)

var _ tea.Model = (*topModel)(nil)

func newTopModel(ctx context.Context, w *watcher, interval time.Duration, colours bool) *topModel {
	return &topModel{ctx: ctx, w: w, interval: interval, colours: colours, width: 80, height: 24}
}

// Init asks for the first overview.
func (m *topModel) Init() tea.Cmd { return m.look }

// look asks for an overview.
func (m *topModel) look() tea.Msg {
	o, err := m.w.look(m.ctx)
	return overviewMsg{o, err}
}

// wait asks to be told when it is time to look again.
func (m *topModel) wait() tea.Msg {
	_ = base.Sleep(m.ctx, m.w.clock, m.interval) // the end of the program ends it too
	return tickMsg{}
}

// Show asks for an instance.
func (m *topModel) Show(ref abide.Ref) tea.Cmd {
	return func() tea.Msg {
		v, err := instances.ReadInstance(m.ctx, m.w.engine, ref)
		var text bytes.Buffer
		if err == nil {
			err = v.Write(&text, 0)
		}
		return detailMsg{ref, strings.Split(strings.TrimRight(text.String(), "\n"), "\n"), err}
	}
}

// Update is told what has happened, and returns what it wants to know.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd := m.key(msg.String())
		return m, cmd
	case tickMsg:
		if m.detail != nil {
			return m, tea.Batch(m.look, m.Show(m.detail.ref))
		}
		return m, m.look
	case overviewMsg:
		m.err = msg.err
		if msg.err == nil {
			m.overview = &msg.o
			m.keepChosen()
		}
		return m, m.wait
	case detailMsg:
		if d := m.detail; d != nil && d.ref == msg.ref {
			d.lines, d.err = msg.lines, msg.err
			d.scroll = min(d.scroll, m.lastScroll())
		}
	}
	return m, nil
}

// key does what a key asks for.
func (m *topModel) key(name string) tea.Cmd {
	switch name {
	case "q", "ctrl+c":
		return tea.Quit
	case "esc", "backspace", "left":
		m.detail = nil
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.height / 2)
	case "pgdown", "space":
		m.move(m.height / 2)
	case "enter", "right":
		if m.detail == nil && m.chosen.ID != "" {
			m.detail = &topDetail{ref: m.chosen}
			return m.Show(m.chosen)
		}
	}
	return nil
}

// move moves the cursor, or scrolls.
func (m *topModel) move(by int) {
	if d := m.detail; d != nil {
		d.scroll = max(0, min(d.scroll+by, m.lastScroll()))
		return
	}
	if m.overview == nil || len(m.overview.latest) == 0 {
		return
	}
	i := max(0, min(m.index()+by, len(m.overview.latest)-1))
	m.chosen = m.overview.latest[i].Ref
}

// lastScroll is how far a detail can be scrolled.
func (m *topModel) lastScroll() int { return max(0, len(m.detail.lines)-(m.height-2)) }

// index is where the cursor is among the latest instances.
func (m *topModel) index() int {
	for i := range m.overview.latest {
		if m.overview.latest[i].Ref == m.chosen {
			return i
		}
	}
	return 0
}

// keepChosen keeps the cursor at its instance, or puts it at the first one.
func (m *topModel) keepChosen() {
	if len(m.overview.latest) == 0 {
		m.chosen = abide.Ref{}
		return
	}
	m.chosen = m.overview.latest[m.index()].Ref
}

// View returns the screen.
func (m *topModel) View() tea.View {
	var lines []string
	switch {
	case m.detail != nil:
		lines = m.detailLines()
	case m.overview != nil:
		lines = m.overviewLines()
	case m.err == nil:
		lines = []string{"looking …"}
	}
	foot := "q ends   ↑ ↓ choose   enter shows   esc goes back"
	if m.err != nil {
		foot = m.paint(console.Red, "cannot look: "+console.OneLine(m.err.Error()))
	}
	lines = lines[:min(len(lines), max(0, m.height-1))]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, foot)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = "abide top"
	return v
}

func (m *topModel) detailLines() []string {
	d := m.detail
	title := m.paint("\x1b[1m", "instance "+console.OneLine(d.ref.ID))
	if d.err != nil {
		return []string{title, m.paint(console.Red, console.OneLine(d.err.Error()))}
	}
	return append([]string{title}, d.lines[min(d.scroll, len(d.lines)):]...)
}

// overviewLines are the sections, of which the instances get what room the others leave.
func (m *topModel) overviewLines() []string {
	o := m.overview
	lines := m.sectionLines(o.head(), 0, -1)
	for _, s := range []*section{o.queues(), o.processes()} {
		if len(s.rows) > 0 {
			lines = append(lines, "", m.paint("\x1b[1m", s.title))
			lines = append(lines, m.sectionLines(s, max(3, m.height/5), -1)...)
		}
	}
	s := o.instances()
	if len(s.rows) == 0 {
		return append(lines, "", "there are no instances: 'abide instances start' starts one")
	}
	lines = append(lines, "", m.paint("\x1b[1m", s.title))
	room := max(3, m.height-1-len(lines))
	chosen := m.index() + 1 // behind the titles
	if first := chosen - (room - 1); first > 0 {
		s.rows = append(s.rows[:1:1], s.rows[1+first:]...)
		chosen -= first
	}
	return append(lines, m.sectionLines(s, room, chosen)...)
}

// sectionLines are the rows of a section, at most so many unless that is 0, with a mark at
// one of them.
func (m *topModel) sectionLines(s *section, most, chosen int) []string {
	t := &console.Table{Colours: m.colours, Width: max(m.width-2, 20)}
	for i, row := range s.rows {
		if most > 0 && i == most {
			break
		}
		t.Add(row...)
	}
	var text bytes.Buffer
	if err := t.Write(&text); err != nil {
		return nil // a buffer takes everything
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	for i := range lines {
		mark := "  "
		if i == chosen {
			mark = "> "
		}
		lines[i] = mark + lines[i]
	}
	if hidden := len(s.rows) - len(lines); most > 0 && hidden > 0 && chosen < 0 {
		lines = append(lines, m.paint(console.Faint, "  and "+strconv.Itoa(hidden)+" more"))
	}
	return lines
}

func (m *topModel) paint(colour, text string) string {
	if !m.colours {
		return text
	}
	return colour + text + "\x1b[0m"
}
