package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/engine"
)

func (s *site) addBuilds() {
	s.section("builds", "/builds", "Builds")
	s.page("GET /builds", s.builds)
	s.verb(s.setBuildVerb())
}

// buildsData is what the page of builds shows.
type buildsData struct {
	Builds   []buildRow
	Commands []command
}

// buildRow is a build.
type buildRow struct {
	abide.Build
	Set  string // where its form is, for who may change it
	Open string // lists the instances that need it
}

func (s *site) builds(r *request) (view, error) {
	if err := r.onlyEverything(); err != nil {
		return view{}, err
	}
	found, err := s.engine.Builds(r.ctx(), "")
	if err != nil {
		return view{}, err
	}
	d := buildsData{Commands: []command{{"Copy as curl", s.curl(r, "/builds")}, {"Copy as command", s.tool(r, "builds report")}}}
	for i := range found {
		row := buildRow{Build: found[i], Open: s.with("/instances", "build", found[i].ID)}
		if r.can {
			row.Set = s.path(buildPath(found[i].ID) + "/set")
		}
		d.Builds = append(d.Builds, row)
	}
	return view{template: "builds", title: "Builds", section: "builds", live: "kinds=tick", data: &d}, nil
}

func buildPath(id string) string { return "/builds/" + segment(id) }

// gotBuild returns the build that stands in the path.
func (s *site) gotBuild(r *request) (abide.Build, error) {
	if err := r.onlyEverything(); err != nil {
		return abide.Build{}, err
	}
	found, err := s.engine.Builds(r.ctx(), r.named("build"))
	if err != nil {
		return abide.Build{}, err
	}
	return found[0], nil
}

// buildMissing reports whether it is known that an instance waits for a worker of its build, and none is alive.
func (s *site) buildMissing(r *request, info *abide.Info) bool {
	if info.Build == "" {
		return false
	}
	unserved, err := s.engine.Unserved(r.ctx())
	return err == nil && slices.ContainsFunc(unserved, func(u abide.Unserved) bool {
		return u.Build == info.Build && u.Route == engine.Route(info.Orchestration, info.Version)
	})
}

// setBuildVerb sets the share of a build, and whether it is drained.
func (s *site) setBuildVerb() verb {
	return verb{
		pattern: "/builds/{build}/set", section: "builds", operation: "set-build",
		form: func(r *request) (form, error) {
			b, err := s.gotBuild(r)
			percent, drained := "", ""
			if b.Percent != nil {
				percent = strconv.Itoa(*b.Percent)
			}
			if b.Drained {
				drained = "yes"
			}
			return form{
				Title: "New instances of build " + b.ID, Submit: "Save", Back: s.path("/builds"),
				Text: "Instances that are pinned to the build stay with it.",
				Fields: []field{
					{Name: "percent", Label: "Share of new instances, in percent", Kind: "text", Value: percent, Example: "10", Help: "Empty: what the shares of other builds leave."},
					{Name: "drained", Label: "Drain it: it gets nothing that another live build can run", Kind: "check", Value: drained},
				},
			}, err
		},
		apply: func(r *request) (done, error) {
			b, err := s.gotBuild(r)
			if err != nil {
				return done{}, err
			}
			d := done{target: b.ID, to: s.path("/builds"), notice: "build-set"}
			percent, drained := abide.NoShare, r.value("drained") != ""
			if text := strings.TrimSpace(strings.TrimSuffix(r.value("percent"), "%")); text != "" {
				if percent, err = strconv.Atoi(text); err != nil || percent < 0 || percent > 100 {
					return d, mistake("The share is a whole number from 0 to 100.")
				}
			}
			return d, s.engine.SetBuild(r.ctx(), b.ID, abide.BuildChange{Percent: &percent, Drained: &drained})
		},
	}
}
