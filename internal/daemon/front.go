package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/grpcserve"
)

// Limits of connections. They keep clients that are slow, or say nothing, from taking the
// places of others.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = time.Minute
	answerTimeout = 5 * time.Minute // of what is no stream
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	socketConns   = 256
	adminConns    = 32
)

// front is where others come in.
type front struct {
	servers []*served
	certs   *certificates // nil without TLS
	workers net.Listener  // nil if none can connect

	taskHubs net.Listener // where Durable Task SDKs connect that have a port of their own; nil if there is none
	sdks     *grpc.Server // what serves it
	serving  Serving
	running  sync.WaitGroup
}

// served is a server on a listener.
type served struct {
	name   string
	listen net.Listener
	http   *http.Server
	tls    bool
}

// open begins to listen; nothing is answered yet.
func (d *daemon) open(ctx context.Context) (*front, error) {
	f := &front{}
	if err := d.openAll(ctx, f); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (d *daemon) openAll(ctx context.Context, f *front) error {
	listener, err := listen(ctx, d.cfg.Addr, d.cfg.MaxConnections)
	if err != nil {
		return err
	}
	if err := d.cfg.Exposed(listener.Addr().String()); err != nil {
		_ = listener.Close()
		return fmt.Errorf("the service manager listens at %s: %w", listener.Addr(), err)
	}
	main := f.add("http", listener, d.outside(d.parts.server))
	f.serving = Serving{
		URL:     address("http", d.cfg.Addr, listener) + d.cfg.Prefix + "/",
		Guarded: d.cfg.Guarded(), Exposed: !isLocal(listener.Addr()),
	}
	if d.cfg.TLS.Cert != "" {
		if f.certs, err = loadCertificates(&d.cfg.TLS); err != nil {
			return err
		}
		main.tls, main.http.TLSConfig = true, f.certs.config()
		f.serving.TLS = true
		f.serving.URL = address("https", d.cfg.Addr, listener) + d.cfg.Prefix + "/"
	}
	if d.Socket != nil {
		f.add("socket", limit(d.Socket, socketConns), d.outside(d.parts.server.Local()))
	}
	if err := d.openWorkers(ctx, f); err != nil {
		return err
	}
	if err := d.openTaskHubs(ctx, f); err != nil {
		return err
	}
	if d.cfg.Admin != "" {
		admin, err := listenTCP(ctx, d.cfg.Admin, adminConns)
		if err != nil {
			return err
		}
		f.add("admin", admin, d.admin())
		f.serving.Admin = address("http", d.cfg.Admin, admin)
	}
	for _, s := range f.servers {
		// What clients do wrong is logged at debug: a scan of the web for open
		// ports would fill the log otherwise.
		s.http.ErrorLog = slog.NewLogLogger(d.log.Handler(), slog.LevelDebug)
	}
	return nil
}

func (f *front) add(name string, l net.Listener, h http.Handler) *served {
	s := &served{name: name, listen: l, http: &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}}
	f.servers = append(f.servers, s)
	return s
}

// openWorkers begins to listen for workers. If nobody has said where, and the port is taken, the server
// does without them.
func (d *daemon) openWorkers(ctx context.Context, f *front) (err error) {
	addr, scheme := d.cfg.WorkerAddr(), "abide"
	if addr == "" {
		return nil
	}
	if f.workers, err = listenTCP(ctx, addr, d.cfg.MaxConnections); err != nil {
		if d.cfg.Workers == "" && errors.Is(err, syscall.EADDRINUSE) {
			d.log.Warn("no workers can connect, the port is taken; set worker_addr", "addr", addr)
			f.workers = nil
			return nil
		}
		return err
	}
	var certs *tls.Config
	if f.certs != nil {
		certs = f.certs.config()
	}
	d.parts.makeWorkers(d, certs)
	f.serving.Workers = address(scheme, addr, f.workers)
	return nil
}

// openTaskHubs begins to listen for Durable Task SDKs, if the configuration names an address for them.
func (d *daemon) openTaskHubs(ctx context.Context, f *front) (err error) {
	addr := d.cfg.TaskHubs
	if addr == "" {
		return nil
	}
	if f.taskHubs, err = listenTCP(ctx, addr, d.cfg.MaxConnections); err != nil {
		return err
	}
	var certs *tls.Config
	if f.certs != nil {
		certs = f.certs.config()
	}
	f.sdks = grpcserve.New(grpcserve.Config{TLS: certs, KeepAlive: keepAlive, MaxMessage: maxTaskMessage, Window: taskWindow})
	d.parts.durableTask(d).Register(f.sdks)
	f.serving.TaskHubs = f.taskHubs.Addr().String()
	return nil
}

// Limits of connections of Durable Task SDKs.
const (
	keepAlive      = 10 * time.Second
	maxTaskMessage = 64 << 20
	taskWindow     = 1 << 20
)

// serve answers.
func (f *front) serve(d *daemon) {
	if f.workers != nil {
		f.running.Go(func() {
			if err := d.parts.connected.Serve(f.workers); err != nil {
				d.fail(fmt.Errorf("serve workers: %w", err))
			}
		})
	}
	if f.sdks != nil {
		f.running.Go(func() {
			if err := f.sdks.Serve(f.taskHubs); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				d.fail(fmt.Errorf("serve Durable Task SDKs: %w", err))
			}
		})
	}
	for _, s := range f.servers {
		f.running.Go(func() {
			var err error
			if s.tls {
				err = s.http.ServeTLS(s.listen, "", "")
			} else {
				err = s.http.Serve(s.listen)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				d.fail(fmt.Errorf("serve %s: %w", s.name, err))
			}
		})
	}
}

// leave closes connections after their answer, so that clients reconnect to another server.
func (f *front) leave() {
	for _, s := range f.servers {
		s.http.SetKeepAlivesEnabled(false)
	}
}

// stop lets requests that are under way come to their end, for as long as ctx allows, and
// a moment longer: a request that is answered as the time runs out still gets its answer.
func (f *front) stop(ctx context.Context, d *daemon) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { d.clock.AfterFunc(leastStop, cancel) })()
	var all sync.WaitGroup
	for _, s := range f.servers {
		all.Go(func() {
			if err := s.http.Shutdown(late); err != nil {
				d.log.Warn("requests interrupted", "server", s.name, "error", err)
			}
		})
	}
	all.Wait()
	f.close()
	f.running.Wait()
}

const leastStop = time.Second

// close ends all connections.
func (f *front) close() {
	for _, s := range f.servers {
		_ = s.http.Close()
		_ = s.listen.Close()
	}
	if f.workers != nil {
		_ = f.workers.Close()
	}
	if f.sdks != nil {
		f.sdks.Stop()
		_ = f.taskHubs.Close()
	}
}

// reload reads the certificates again. If they cannot be read, the old ones stay.
func (f *front) reload(log *slog.Logger) {
	if f.certs == nil {
		log.Info("nothing to reload, no certificates configured")
		return
	}
	if err := f.certs.load(); err != nil {
		log.Error("certificates not reloaded", "error", err)
		return
	}
	log.Info("certificates reloaded")
}

// admin shows what operators look at: profiles and metrics.
func (d *daemon) admin() http.Handler {
	profiles := http.NewServeMux()
	profiles.HandleFunc("GET /debug/pprof/", pprof.Index)
	profiles.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux := http.NewServeMux()
	mux.Handle("/debug/pprof/", d.adminsOnly(profiles))
	mux.Handle("GET /metrics", d.parts.telemetry.Handler())
	return sameMachine(mux, d.cfg.Insecure)
}

// adminsOnly asks for the role admin, for all tenants, where callers have to prove who they
// are: a dump of the memory has payloads and secrets in it.
func (d *daemon) adminsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.cfg.Guarded() {
			who, err := d.parts.guard.Identify(r)
			switch {
			case err != nil:
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			case !who.Role.Includes(auth.Admin) || who.Tenants != nil:
				http.Error(w, "profiles take the role admin, for all tenants", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// sameMachine refuses requests under another name than those of this machine: a page on
// the web could have the browser of an operator make them.
func sameMachine(next http.Handler, anywhere bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" {
			http.Error(w, "a web page has sent it", http.StatusForbidden)
			return
		}
		if ip := net.ParseIP(host); !anywhere && host != "localhost" && ip == nil {
			http.Error(w, "call it by its address, or as localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
