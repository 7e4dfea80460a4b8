package migration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const root = "root"

// ownChanges is how many revisions of the users Close makes: of the user root and of its role.
const ownChanges = 2

var (
	errEnabled = errors.New("the etcd's authentication is enabled, so it cannot be closed for its clients by it: end the " +
		"etcd, and import member/snap/db of a member with --snapshot and --skip-hash-check")
	errRoot = errors.New("the etcd has a user root, whose password is unknown: delete the user, or end the etcd and import " +
		"member/snap/db of a member with --snapshot and --skip-hash-check")
	errUsersChanged = errors.New("the etcd's users were changed while it was copied: try again")
)

// examine refuses an etcd that cannot be closed.
func (e *Etcd) examine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	status, err := e.client.AuthStatus(ctx)
	if err != nil {
		return err
	}
	if status.Enabled {
		return errEnabled
	}
	e.users = status.AuthRevision
	switch _, err := e.client.UserGet(ctx, root); {
	case err == nil:
		return errRoot
	case !errors.Is(err, rpctypes.ErrUserNotFound):
		return err
	}
	return nil
}

// shut closes the etcd for its clients, by its authentication: Raft orders the command that enables it among the writes,
// and every member refuses the writes behind it, of each user but root. Only etcd itself deletes keys then, when their
// leases expire. It returns a client of root at the copied member. After an error the etcd may be closed.
func (e *Etcd) shut(ctx context.Context) (*clientv3.Client, error) {
	e.password = rand.Text()
	e.o.Log.Warn("the etcd refuses its clients from now on", "to let them in again", e.Reopening())
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	if _, err := e.client.UserAdd(ctx, root, e.password); err != nil {
		if errors.Is(err, rpctypes.ErrUserAlreadyExist) {
			e.password = "" // another process has made it
		}
		return nil, err
	}
	if _, err := e.client.UserGrantRole(ctx, root, root); err != nil {
		return nil, err
	}
	if _, err := e.client.AuthEnable(ctx); err != nil {
		return nil, err
	}
	c, err := clientv3.New(e.at(root, e.password))
	if err != nil {
		return nil, err
	}
	status, err := c.AuthStatus(ctx)
	if err == nil && status.AuthRevision != e.users+ownChanges {
		err = errUsersChanged
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Closed reports whether the etcd was closed for its clients.
func (e *Etcd) Closed() bool { return e.password != "" }

// Reopening is the command that lets the clients of a closed etcd in again.
func (e *Etcd) Reopening() string {
	return fmt.Sprintf("etcdctl --endpoints %s --user %s:%s auth disable", e.source, root, e.password)
}

// Reopen lets the clients of a closed etcd in again, and deletes what closing it has made.
func (e *Etcd) Reopen(ctx context.Context) error {
	if !e.Closed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Timeout)
	defer cancel()
	if err := e.disable(ctx); err != nil {
		return fmt.Errorf("the etcd still refuses its clients: %w; to let them in again: %s", err, e.Reopening())
	}
	e.password = ""
	if _, err := e.client.UserDelete(ctx, root); err != nil && !errors.Is(err, rpctypes.ErrUserNotFound) {
		return fmt.Errorf("the user root is left in the etcd: %w", err)
	}
	e.o.Log.Info("the etcd lets its clients in again")
	return nil
}

func (e *Etcd) disable(ctx context.Context) error {
	status, err := e.client.AuthStatus(ctx)
	if err == nil && !status.Enabled {
		return nil
	}
	c, err := clientv3.New(e.at(root, e.password))
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // its calls have ended
	_, err = c.AuthDisable(ctx)
	return err
}
