package vet

// rule says which names of a package are nondeterministic, and why.
type rule struct {
	category Category

	// names are functions, variables, methods (Type.Method) or all methods of a type
	// (Type.*).
	names []string

	// others turns names into the exceptions: all other functions and methods of the
	// package are meant. Variables are meant only where they are named.
	others bool

	// does and instead replace those of the category where there is more to say.
	does, instead string
}

const (
	useNow    = "use abide.Now(ctx)"
	useSleep  = "use abide.Sleep"
	useTimer  = "use abide.NewTimer"
	useLogger = "use abide.Logger(ctx)"
	useUTC    = "use UTC, or a location that is part of the input"
)

// known has the packages that orchestration code must not use as it likes: the
// first rule that matches a name counts, and names without a rule are fine. The
// standard library is judged by this table alone. Of other modules it has those
// whose randomness the analysis would not see, behind a variable or an interface.
var known = map[string][]rule{
	"time": {
		{category: Clock, names: []string{"Now", "Since", "Until"}, instead: useNow},
		{category: Clock, names: []string{"Sleep"}, instead: useSleep},
		{category: Clock, names: []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Tick"}, instead: useTimer},
		{category: Environment, names: []string{"Local", "Time.Local"}, does: "depends on the time zone of the machine", instead: useUTC},
	},
	"context": {
		{category: Clock, names: []string{"WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause"}, instead: useTimer},
		{category: Concurrency, names: []string{"AfterFunc"}},
	},

	"math/rand":    {{category: Random, others: true, names: []string{"New", "NewZipf", "Rand.*", "Source.*", "Source64.*", "Zipf.*"}}},
	"math/rand/v2": {{category: Random, others: true, names: []string{"ChaCha8.*", "New", "NewZipf", "PCG.*", "Rand.*", "Source.*", "Zipf.*"}}},
	"crypto/rand": {
		{category: Random, names: []string{"Reader"}},
		{category: Random, others: true},
	},
	"hash/maphash": {{category: Random, others: true}},

	"github.com/google/uuid":       {{category: Random, names: []string{"New", "NewDCEGroup", "NewDCEPerson", "NewDCESecurity", "NewRandom", "NewString", "NewUUID", "NewV6", "NewV7"}}},
	"github.com/gofrs/uuid":        {{category: Random, names: gofrsUUID}},
	"github.com/gofrs/uuid/v5":     {{category: Random, names: gofrsUUID}},
	"github.com/satori/go.uuid":    {{category: Random, names: gofrsUUID}},
	"github.com/hashicorp/go-uuid": {{category: Random, names: []string{"GenerateRandomBytes", "GenerateUUID"}}},
	"github.com/oklog/ulid":        {{category: Random, names: []string{"Make", "Now"}}},
	"github.com/oklog/ulid/v2":     {{category: Random, names: []string{"DefaultEntropy", "Make", "Now"}}},
	"github.com/rs/xid":            {{category: Random, names: []string{"New", "NewWithTime"}}},
	"github.com/segmentio/ksuid":   {{category: Random, names: []string{"New", "NewRandom", "NewRandomWithTime"}}},

	"sync": {
		{category: Concurrency, names: []string{"Cond.Broadcast", "Cond.Signal", "Cond.Wait", "WaitGroup.Go", "WaitGroup.Wait"}},
		// The other half of a pair is not a finding of its own.
		{category: Lock, others: true, names: []string{
			"Locker.Unlock", "Mutex.Unlock", "NewCond", "RWMutex.RUnlock", "RWMutex.Unlock", "WaitGroup.Add", "WaitGroup.Done",
		}},
	},
	"sync/atomic": {{category: Lock, others: true}},

	"os": {
		{category: Environment, names: []string{
			"Args", "Clearenv", "Environ", "Executable", "ExpandEnv", "Getegid", "Getenv", "Geteuid", "Getgid", "Getgroups",
			"Getpagesize", "Getpid", "Getppid", "Getuid", "Getwd", "Hostname", "LookupEnv", "Setenv", "TempDir", "Unsetenv",
			"UserCacheDir", "UserConfigDir", "UserHomeDir",
		}},
		{category: IO, names: []string{"Stderr", "Stdin", "Stdout"}},
		{category: IO, others: true, names: []string{
			"Expand", "IsExist", "IsNotExist", "IsPathSeparator", "IsPermission", "IsTimeout", "LinkError.*", "NewSyscallError", "SyscallError.*",
		}},
	},
	"os/exec":   {{category: IO, others: true, names: []string{"Error.*", "ExitError.*"}}},
	"os/signal": {{category: IO, others: true}},
	"os/user":   {{category: Environment, others: true}},
	"net": {{category: IO, others: true, names: []string{
		"Addr.*", "AddrError.*", "CIDRMask", "DNSError.*", "Error.*", "HardwareAddr.*", "IP.*", "IPAddr.*", "IPMask.*", "IPNet.*", "IPv4",
		"IPv4Mask", "JoinHostPort", "OpError.*", "ParseCIDR", "ParseError.*", "ParseIP", "ParseMAC", "SplitHostPort", "TCPAddr.*",
		"TCPAddrFromAddrPort", "UDPAddr.*", "UDPAddrFromAddrPort", "UnixAddr.*",
	}}},
	"net/http": {
		{category: IO, names: []string{"DefaultClient", "DefaultServeMux", "DefaultTransport"}},
		{category: IO, others: true, names: []string{
			"CanonicalHeaderKey", "Cookie.*", "DetectContentType", "Header.*", "MaxBytesError.*", "NewRequest", "NewRequestWithContext",
			"ParseCookie", "ParseHTTPVersion", "ParseSetCookie", "ParseTime", "ProtocolError.*", "Request.*", "Response.*", "StatusText",
		}},
	},
	"net/rpc":         {{category: IO, others: true}},
	"net/rpc/jsonrpc": {{category: IO, others: true}},
	"net/smtp":        {{category: IO, others: true}},
	"crypto/tls":      {{category: IO, names: []string{"Conn.*", "Dial", "DialWithDialer", "Dialer.*", "Listen", "LoadX509KeyPair"}}},
	"crypto/x509":     {{category: IO, names: []string{"SystemCertPool"}}},
	"database/sql": {{category: IO, others: true, names: []string{
		"IsolationLevel.*", "Named", "Null.*", "NullBool.*", "NullByte.*", "NullFloat64.*", "NullInt16.*", "NullInt32.*", "NullInt64.*",
		"NullString.*", "NullTime.*",
	}}},
	"io/ioutil":     {{category: IO, others: true, names: []string{"NopCloser", "ReadAll"}}},
	"path/filepath": {{category: IO, names: []string{"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"}}},
	"html/template": {{category: IO, names: templateFiles}},
	"text/template": {{category: IO, names: templateFiles}},
	"plugin":        {{category: IO, others: true}},
	"syscall":       {{category: IO, others: true, names: []string{"Errno.*", "Signal.*"}}},
	"log":           {{category: IO, others: true, names: []string{"New"}, does: "writes a log line on every replay", instead: useLogger}},
	"log/syslog":    {{category: IO, others: true, instead: useLogger}},
	"log/slog": {{category: IO, does: "writes a log line on every replay", instead: useLogger, names: []string{
		"Debug", "DebugContext", "Default", "Error", "ErrorContext", "Info", "InfoContext", "Log", "LogAttrs", "SetDefault",
		"SetLogLoggerLevel", "Warn", "WarnContext",
	}}},
	"fmt": {
		{category: IO, names: []string{"Print", "Printf", "Println"}, does: "prints on every replay", instead: useLogger},
		{category: IO, names: []string{"Scan", "Scanf", "Scanln"}},
	},

	"flag": {
		{category: Environment, names: []string{"CommandLine"}},
		{category: Environment, others: true, names: []string{"FlagSet.*", "NewFlagSet", "UnquoteUsage", "Value.*"}},
	},
	"runtime": {
		{category: Environment, names: []string{"GOMAXPROCS", "NumCPU", "NumCgoCall", "NumGoroutine", "ReadMemStats", "Stack", "Version"}},
		{category: Concurrency, names: []string{"AddCleanup", "GC", "Goexit", "Gosched", "LockOSThread", "SetFinalizer"}},
	},
	"runtime/debug": {{category: Environment, others: true}},

	"reflect": {
		{category: Pointer, names: []string{"Value.Pointer", "Value.UnsafeAddr", "Value.UnsafePointer"}},
		{category: MapOrder, names: []string{"Value.MapRange"}},
	},
}

var (
	gofrsUUID     = []string{"NewV1", "NewV4", "NewV6", "NewV7"}
	templateFiles = []string{"ParseFiles", "ParseGlob", "Template.ParseFiles", "Template.ParseGlob"}
)
