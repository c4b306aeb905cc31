package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/config"
	"github.com/abidehq/abide/remote"
)

// health is the verb: abide health.
type health struct {
	ready   bool
	timeout time.Duration
}

// NewHealth returns the command abide health.
func NewHealth() *cobra.Command {
	h := &health{}
	cmd := &cobra.Command{
		Use:   "health [URL]",
		Short: "Check the health of a server",
		Long: `Check the health of a server: the exit code is 0 if it is healthy, 5 if it does not answer, and 1
if it says that it is not.

Without a URL, it is the server on this machine that has the same configuration: the
address of ABIDE_ADDR or of the file. Its certificate is not checked then.`,
		Example: `  abide health
  abide health --ready https://abide.example.com`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return console.Usage("%q takes one URL; got %q", cmd.CommandPath(), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			url, client, err := h.find(args)
			if err != nil {
				return err
			}
			return h.Ask(cmd.Context(), cmd.OutOrStdout(), url, client)
		},
	}
	cmd.Flags().BoolVar(&h.ready, "ready", false, "ask whether it can be sent work, too: /readyz instead of /healthz")
	console.DurationVar(cmd.Flags(), &h.timeout, "timeout", 5*time.Second, "how long it may take to answer")
	return cmd
}

// find returns the address of the server, and what to call it with.
func (h *health) find(args []string) (string, *http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := &http.Client{Timeout: h.timeout, Transport: transport}
	if len(args) == 1 {
		if !strings.HasPrefix(args[0], "http://") && !strings.HasPrefix(args[0], "https://") {
			return "", nil, console.Usage("%q is not the address of a server, such as http://127.0.0.1:7171", args[0])
		}
		return strings.TrimSuffix(args[0], "/"), client, nil
	}
	loaded, err := config.Load(config.Source{Environ: os.Environ()})
	if err != nil {
		return "", nil, console.AsUsage(err)
	}
	host, port, err := net.SplitHostPort(loaded.Addr)
	if err != nil {
		return "", nil, err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if loaded.TLS.Cert != "" {
		scheme = "https"
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the server is this machine
	}
	transport.Proxy = nil
	return scheme + "://" + net.JoinHostPort(host, port) + loaded.Prefix, client, nil
}

func (h *health) Ask(ctx context.Context, w io.Writer, url string, client *http.Client) error {
	path := "/healthz"
	if h.ready {
		path = "/readyz"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, http.NoBody)
	if err != nil {
		return console.Usage("%q is not the address of a server", url)
	}
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w: %w", url, remote.ErrUnreachable, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1024))
		return fmt.Errorf("%s is not well: %s: %s", url, answer.Status, strings.TrimSpace(string(body)))
	}
	fmt.Fprintln(w, "ok")
	return nil
}
