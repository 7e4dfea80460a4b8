package kv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
)

// Environment of a command that holds a lock.
const (
	tokenVariable = "NETCRAQ_FENCING_TOKEN"
	lockVariable  = "NETCRAQ_LOCK"
)

type lockFlags struct {
	cluster   cli.ClusterFlags
	ttl, wait time.Duration
	try       bool
}

func newLockCommand() *cobra.Command {
	var flags lockFlags
	cmd := &cobra.Command{
		Use:   "lock NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock: in the whole cluster, one command at a time for each name.

The command finds the lock's fencing token in $` + tokenVariable + `. The token is greater than that of every earlier
holder. A resource that refuses lower tokens is safe from commands that hang and continue after they lost the lock.

The lock is renewed while the command runs. If renewal fails for too long, or the cluster is unreachable, the command
gets SIGTERM, and SIGKILL before another command can get the lock. The command also gets SIGKILL if this process is
killed. Processes that the command started get these signals only if standard input is no terminal. Signals to this
process are forwarded to the command.

With --try the command does not wait for a live holder. A live holder renews its lock and is detected within a third of
the lock's time to live. A holder that does not renew its lock for the whole time is gone, and the command gets the lock.

Exit status: that of the command, or 128 plus the number of the signal that ended it; 1 error, 2 wrong usage, 6 the lock
is taken, 7 the lock was lost.`,
		Example: "  netcraq lock backup -- pg_dump --file=backup.sql\n  netcraq lock deploy --try -- make deploy\n" +
			"  netcraq lock cron --wait 10s --ttl 30s -- sh -c 'echo token $" + tokenVariable + "'",
		Args: lockArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLock(cmd.Context(), cmd, &flags, args[0], args[1:])
		},
	}
	f := cmd.Flags()
	flags.cluster.Add(f)
	f.DurationVar(&flags.ttl, "ttl", client.DefaultLockTTL,
		"time to live: others may take the lock if its holder does not renew it for this time")
	f.DurationVar(&flags.wait, "wait", 0,
		"give up waiting for the lock after this time (default: never, while the cluster answers)")
	f.BoolVar(&flags.try, "try", false, "give up if a live holder has the lock")
	return cmd
}

func lockArguments(cmd *cobra.Command, args []string) error {
	if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
		return cli.UsageError(fmt.Errorf("want %s; --help says more", cmd.UseLine()))
	}
	return nil
}

func runLock(ctx context.Context, cmd *cobra.Command, flags *lockFlags, name string, command []string) error {
	if flags.try && flags.wait != 0 || flags.wait < 0 {
		return cli.UsageError(errors.New("--wait needs a positive time, and excludes --try"))
	}
	c, err := flags.cluster.Connect(ctx, client.Options{Timeout: client.DefaultTimeout})
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := flags.acquire(ctx, c.Client, name, cmd.ErrOrStderr())
	if err != nil {
		return lockStatus(err)
	}
	environment := append(os.Environ(), tokenVariable+"="+strconv.FormatUint(l.Token(), 10), lockVariable+"="+name)
	run := guarded{stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), environment: environment}
	ended := run.run(ctx, l, command)
	unlocking, cancel := context.WithTimeout(context.WithoutCancel(ctx), flags.ttl)
	defer cancel()
	err = l.Unlock(unlocking)
	switch {
	case errors.Is(err, client.ErrLockLost):
		return lockStatus(fmt.Errorf("%s: %w", name, err))
	case ended != nil:
		return ended
	case err != nil:
		return fmt.Errorf("the command ended, but unlocking failed, so the lock stays taken for up to %v: %w",
			flags.ttl, err)
	}
	return nil
}

func (f *lockFlags) acquire(ctx context.Context, c *client.Client, name string, log io.Writer) (*client.Lock, error) {
	o := client.LockOptions{TTL: f.ttl, Grace: f.ttl / 5, Note: holderNote()}
	if f.try {
		return tryLock(ctx, c, name, o, log)
	}
	if f.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.wait)
		defer cancel()
	}
	return c.Lock(ctx, name, o)
}

// lookForLife is the interval of checks whether the holder of a taken lock is live. sayAfter is the time until the user is
// told about the wait.
const (
	lookForLife = 50 * time.Millisecond
	sayAfter    = time.Second
)

// tryLock takes a lock that is free or whose holder is gone.
func tryLock(ctx context.Context, c *client.Client, name string, o client.LockOptions,
	log io.Writer) (*client.Lock, error) {
	began, said := time.Now(), false
	for {
		l, err := c.TryLock(ctx, name, o)
		locked := new(client.LockedError)
		if !errors.As(err, &locked) || locked.Alive {
			return l, err
		}
		if !said && time.Since(began) > sayAfter {
			said = true
			fmt.Fprintf(log, "netcraq: %v: waiting up to %v for the holder to renew it\n", err, locked.Left.Round(time.Second/10))
		}
		select {
		case <-time.After(min(lookForLife, locked.Left)):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// holderNote describes this process to users that find the lock taken.
func holderNote() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("process %d on %s", os.Getpid(), host)
}

func lockStatus(err error) error {
	switch {
	case errors.Is(err, client.ErrLockLost):
		return cli.ExitWith(cli.ExitLockLost, err)
	case errors.Is(err, client.ErrLocked):
		return cli.ExitWith(cli.ExitLocked, err)
	case errors.Is(err, client.ErrBadRequest):
		return cli.UsageError(err)
	}
	return err
}
