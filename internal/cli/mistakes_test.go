package cli

import (
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/cli/connect"
)

// What makes no sense is said before anything is done.
func TestMistakesAboutActions(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(connect.EnvStore, "")
	if code, _, stderr := invoke(t, "actions", "add", "billing"); code != ExitOK {
		t.Fatal(stderr)
	}
	for _, tt := range []struct {
		line string // arguments, with a | between them
		want string
	}{
		{"actions|dance", "known are: add, cancel, list, retry, show"},
		{"actions|add", "needs a slug"},
		{"actions|add|one|two", "takes one argument"},
		{"actions|add|../etc", "slug"},
		{"actions|add|billing|--at|soon", `--at is "soon", which is not a time`},
		{"actions|add|billing|--in|soon", "write 90s, 15m, 2h30m, or a number of seconds"},
		{"actions|add|billing|--in|-5m", "negative"},
		{"actions|add|billing|--in|5m|--at|now", "only one is allowed"},
		{"actions|add|billing|--payload|text", "not JSON"},
		{"actions|add|billing|--payload|@missing.json", "missing.json"},
		{"actions|list|--status|done", `unknown status "done"`},
		{"actions|list|--limit|0", "--limit is 0"},
		{"actions|list|--from|later", "is not a time"},
		{"actions|list|--to|later", "is not a time"},
		{"actions|list|-o|yaml", "known are: table, json"},
		{"actions|list|--db|paper://x", `unknown scheme "paper"`},
		{"actions|list|--db|pebble://%zz", "malformed URL"},
		{"actions|list|here", "takes no arguments"},
		{"actions|show", "needs the ID of an action"},
		{"actions|cancel", "needs the ID of an action"},
		{"actions|retry", "needs the ID of an action"},

		{"schedules|dance", "known are: add, backfill, list, pause, preview, remove, resume, show, trigger, update"},
		{"schedules|add", "needs an ID"},
		{"schedules|add|x|--every|1h", "slug"},
		{"schedules|add|x|--slug|x", "needs one of them"},
		{"schedules|add|x|--slug|x|--every|1h|--cron|* * * * *", "exclude each other"},
		{"schedules|add|x|--slug|x|--cron|61 * * * *", "minute"},
		{"schedules|add|x|--slug|x|--cron|* * * * *|--zone|Mars/Olympus", "Mars/Olympus"},
		{"schedules|add|x|--slug|x|--cron|* * * * *|--gap|jump", "run-after and skip are allowed"},
		{"schedules|add|x|--slug|x|--cron|* * * * *|--fold|third", "first, second and both are allowed"},
		{"schedules|add|x|--slug|x|--every|1h|--overlap|maybe", `overlap is "maybe"`},
		{"schedules|add|x|--slug|x|--every|1h|--catch-up|some", `catch-up is "some"`},
		{"schedules|add|x|--slug|x|--every|1h|--from|soon", "is not a time"},
		{"schedules|add|x|--slug|x|--every|1h|--until|soon", "is not a time"},
		{"schedules|add|x|--slug|x|--every|1h|--payload|text", "not JSON"},
		{"schedules|backfill|x", "--from and --to are needed"},
		{"schedules|backfill|x|--from|now", "--from and --to are needed"},
		{"schedules|preview", "or --cron or --every"},
		{"schedules|preview|--cron|* * * * *|-n|0", "1 to 1000 is allowed"},
		{"schedules|preview|x|--cron|* * * * *", "give it, or an ID"},
		{"schedules|preview|one|two", "takes one ID"},
		{"schedules|preview|--cron|a b", "fields"},
		{"schedules|remove", "needs the ID of a schedule"},

		{"orchestrate", "no command: say what to run"},
		{"orchestrate|--tick-rate|0|--|true", "--tick-rate is 0s"},
		{"orchestrate|--tick-rate|soon|--|true", "or a number of seconds"},
		{"orchestrate|--tick-rate|1ms|--|true", "10ms to 24h0m0s is allowed"},
		{"orchestrate|--slots|0|--|true", "--slots is 0"},
		{"orchestrate|--attempts|0|--|true", "--attempts is 0"},
		{"orchestrate|--timeout|0|--|true", "--timeout is 0s"},
		{"orchestrate|--drain|-1s|--|true", "--drain is -1s"},
		{"orchestrate|--env|A=B|--|true", "the name of a variable is allowed"},
		{"orchestrate|--log-format|xml|--|true", "known are: text, json"},
		{"orchestrate|--log-level|loud|--|true", "known are: debug, info, warn, error"},
		{"orchestrate|--|echo|{slag}", "{slug}, {id}, {tenant}, {attempt}, {date} and {time} are allowed"},
		{"orchestrate|--|{slug}", "must not have placeholders"},
		{"orchestrate|--db|memory://|--|true", "no other process can add actions"},
		{"orchestrate|--db|paper://x|--|true", `unknown scheme "paper"`},
	} {
		t.Run(tt.line, func(t *testing.T) {
			code, stdout, stderr := invoke(t, strings.Split(tt.line, "|")...)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, tt.want)
			}
		})
	}
}
