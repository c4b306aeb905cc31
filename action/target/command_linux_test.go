package target_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/check"
)

func init() {
	// It runs a command until it dies.
	helpers["service"] = func() error {
		c, err := target.NewCommand(target.CommandConfig{Argv: []string{"/bin/sh", "-c", "echo $$ > " + os.Args[1] + "; exec sleep 60"}})
		if err != nil {
			return err
		}
		_, err = c.Run(context.Background(), scheduled(""))
		return err
	}
}

// TestDeath: a command does not outlive the process that runs it, whose successor may run
// it again.
func TestDeath(t *testing.T) {
	t.Parallel()
	ready := pipe(t)
	service := exec.Command(self(t), ready)
	service.Env = append(os.Environ(), helper+"=service")
	check.OK(t, service.Start())
	command := said(t, ready)
	check.OK(t, service.Process.Kill())
	var exit *exec.ExitError
	if err := service.Wait(); !errors.As(err, &exit) {
		t.Error(err)
	}
	if exit != nil && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the service has ended by itself: %v", exit)
	}
	groupIsGone(t, command)
}
