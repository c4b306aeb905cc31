package serve

import (
	"fmt"
	"os"
	"strings"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abidehq/abide/internal/config"
)

// configured are the flags that say how to serve: each stands for a key of the
// configuration.
type configured struct {
	file  string
	set   []string
	flags *pflag.FlagSet
}

// serveFlags are the flags that have a name of their own; --set takes all other keys.
var serveFlags = []struct{ name, key, help string }{
	{"store", "store", "folder of the store, or its URL (default ./abide-data)"},
	{"addr", "addr", "address to listen on (default 127.0.0.1:7171)"},
	{"worker-addr", "worker_addr", "where workers connect, or off (default 127.0.0.1:7172)"},
	{"durabletask-addr", "durabletask_addr", "where Durable Task SDKs connect besides worker-addr"},
	{"admin-addr", "admin_addr", "where to show profiles and metrics besides; on loopback"},
	{"demo", "demo", "run a few examples, so that there is something to see"},
	{"insecure", "insecure", "accept requests without authentication"},
	{"tick-rate", "actions.tick_rate", "interval between ticks for actions (default 1s)"},
	{"slots", "actions.slots", "how many actions run at a time (default 16)"},
	{"tls-cert", "tls.cert", "file with the certificate of the server; read again on SIGHUP"},
	{"tls-key", "tls.key", "file with its key"},
	{"tls-client-ca", "tls.client_ca", "file with the authorities of certificates of clients"},
	{"drain", "drain", "how long running work may take to end when the server stops (default 15s)"},
	{"log-format", "log.format", "how to log, to standard error: text or json"},
	{"log-level", "log.level", "from which level on: debug, info, warn or error"},
}

// AddTo gives a command the flags.
func (c *configured) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.file, "config", "", "file with the configuration; $ABIDE_CONFIG if not given, or ./"+config.DefaultFile+" if it is there")
	for _, flag := range serveFlags {
		if flag.name == "demo" || flag.name == "insecure" {
			f.Bool(flag.name, false, flag.help)
		} else {
			f.String(flag.name, "", flag.help)
		}
	}
	f.StringArrayVar(&c.set, "set", nil, "any key, as key=value, such as timers.quota=1000; can be given more than once")
	c.flags = f
}

// load reads the configuration.
func (c *configured) load() (*config.Loaded, error) {
	flags := map[string]config.Flag{}
	for _, text := range c.set {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, console.Usage("--set %s: it must be key=value, such as timers.quota=1000", text)
		}
		flags[key] = config.Flag{Name: "--set", Value: value}
	}
	for _, flag := range serveFlags {
		if given := c.flags.Lookup(flag.name); given.Changed {
			flags[flag.key] = config.Flag{Name: "--" + flag.name, Value: given.Value.String()}
		}
	}
	loaded, err := config.Load(config.Source{File: c.file, Flags: flags, Environ: os.Environ()})
	if err != nil {
		return loaded, console.AsUsage(err)
	}
	return loaded, nil
}

// NewConfig returns the command abide config.
func NewConfig() *cobra.Command {
	return console.Group(&cobra.Command{
		Use:   "config",
		Short: "Check and print the configuration of a server",
	}, newConfigCheck(), newConfigPrint(), newConfigExample())
}

func newConfigCheck() *cobra.Command {
	c := &configured{}
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration and report all errors",
		Long: `Find the mistakes in a configuration, all at once, without starting anything. What
flags and the environment say counts as well. The exit code is 2 if there are any.`,
		Args: atMostOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.takeFile(args); err != nil {
				return err
			}
			loaded, err := c.load()
			if err != nil {
				return err
			}
			name := loaded.File
			if name == "" {
				name = "there is no file, and what flags and the environment say"
			}
			fmt.Fprintln(cmd.OutOrStdout(), name+" is fine")
			return nil
		},
	}
	c.AddTo(cmd)
	return cmd
}

func newConfigPrint() *cobra.Command {
	c := &configured{}
	cmd := &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the effective configuration and the source of each value",
		Long: `Print the configuration that holds, as YAML, and where each value came from. Secrets
are masked.`,
		Args: atMostOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.takeFile(args); err != nil {
				return err
			}
			loaded, err := c.load()
			if err != nil {
				return err
			}
			text, err := loaded.Print()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	c.AddTo(cmd)
	return cmd
}

func newConfigExample() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print an example configuration with all keys and their meaning",
		Example: "  abide config example > abide.yaml",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.Example())
			return err
		},
	}
}

// atMostOneFile is for commands that are about a configuration.
func atMostOneFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return console.Usage("%q takes one file; got %q", cmd.CommandPath(), args)
	}
	return nil
}

// takeFile takes the file that is an argument.
func (c *configured) takeFile(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.file != "":
		return console.Usage("--config and an argument both name a file; one of them is allowed")
	}
	c.file = args[0]
	return nil
}
