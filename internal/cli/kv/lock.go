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
	"github.com/netcraq/netcraq/client/connect"
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
		Use:   "lock NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock: in the whole cluster, one command at a time for each name.

The command finds the lock's fencing token in $` + tokenVariable + `. The token is greater than that of every earlier
holder. A resource that refuses lower tokens is safe from commands that hang and continue after they lost the lock.

The lock is renewed while the command runs. If renewal fails for too long, or the cluster is unreachable, the command
gets SIGTERM, and SIGKILL before another command can get the lock. The command also gets SIGKILL if this process is
killed.

Signals to this process are forwarded to the command: TERM, INT, HUP, QUIT, USR1, USR2, WINCH, TSTP and CONT. A signal
that comes while this command waits for the lock ends the wait. If standard input is a terminal, the command is in the
same process group as this process. It gets the terminal's signals, such as that of Ctrl-C, from the terminal, and only
the command itself gets forwarded signals. Otherwise the command has a process group of its own, and all its processes
get them.

When TSTP stops the command, this process stops too. Then nothing renews the lock. CONT continues the command if the
lock is still held, otherwise the command gets SIGKILL.

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
	ctx = context.WithoutCancel(ctx) // this command handles signals itself
	received := listen()
	defer received.stop()
	c, l, err := flags.await(ctx, name, received, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	environment := append(os.Environ(), tokenVariable+"="+strconv.FormatUint(l.Token(), 10), lockVariable+"="+name)
	run := guarded{stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), environment: environment,
		signals: received}
	ended := run.run(l, command)
	unlocking, cancel := context.WithTimeout(ctx, flags.ttl)
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

// await takes the lock, unless a signal ends the wait.
func (f *lockFlags) await(ctx context.Context, name string, received *signals, log io.Writer) (*connect.Client,
	*client.Lock, error) {
	waiting, end := received.interrupting(ctx)
	c, err := f.cluster.Connect(waiting, client.Options{Timeout: client.DefaultTimeout})
	var l *client.Lock
	if err == nil {
		l, err = f.acquire(waiting, c.Client, name, log)
	}
	s := end()
	switch {
	case s == 0 && err == nil:
		return c, l, nil
	case l != nil:
		unlocking, cancel := context.WithTimeout(ctx, f.ttl)
		defer cancel()
		err = l.Unlock(unlocking)
	}
	if c != nil {
		c.Close()
	}
	if s == 0 {
		return nil, nil, lockStatus(err)
	}
	ended := fmt.Errorf("the signal %q came before the command was started", s)
	if err != nil {
		ended = fmt.Errorf("%w: %w", ended, err)
	}
	return nil, nil, cli.ExitBySignal(s, ended)
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
