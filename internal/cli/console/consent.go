package console

import (
	"bufio"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// Consent is what a command needs that does something which cannot be undone.
type Consent struct{ yes bool }

// ConsentHelp is what the help of such a command says.
const ConsentHelp = `On a terminal it asks first, unless --yes is given. Elsewhere --yes is needed.`

// errDeclined means that a person was asked, and said no.
var errDeclined = errors.New("nothing was done")

// AddTo gives a command the flag.
func (c *Consent) AddTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
}

// Ask returns an error unless the flag says yes, or a person at the terminal does.
func (c *Consent) Ask(cmd *cobra.Command, question string) error {
	switch {
	case c.yes:
		return nil
	case !IsTerminal(cmd.InOrStdin()):
		return Usage("%q cannot be undone, and there is no terminal to ask at: give --yes", cmd.CommandPath())
	}
	cmd.PrintErr(Printable(question) + " [y/N] ")
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return errDeclined
	}
}
