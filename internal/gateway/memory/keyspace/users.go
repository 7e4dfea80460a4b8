package keyspace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// formatUsers is the first byte of commands that change users or alarms. No protocol buffer begins with it, so a
// gateway of a version that checks no permissions ends there.
const formatUsers = 0x07

// usersFirst begins a snapshot that has users. It is no number, so such a gateway refuses the snapshot.
var usersFirst = slices.Repeat([]byte{0xff}, binary.MaxVarintLen64)

// userBuckets are the buckets that have users, in the order of a snapshot, and behind them that of alarms.
var userBuckets = []backend.Bucket{schema.Auth, schema.AuthUsers, schema.AuthRoles, schema.Alarm}

// userEntry is an entry of one of the buckets.
type userEntry struct {
	bucket     byte // its place in userBuckets
	key, value []byte
}

var errUsers = errors.New("a user, a role or a setting of authentication has another format")

// check refuses an entry on which etcd's store would panic.
func (e *userEntry) check() error {
	ok := len(e.key) > 0
	switch int(e.bucket) {
	case 0:
		ok = string(e.key) != string(schema.AuthRevisionKeyName) || len(e.value) == 8
	case 1:
		u := new(authpb.User)
		ok = ok && proto.Unmarshal(e.value, u) == nil && string(u.Name) == string(e.key)
	case 2:
		r := new(authpb.Role)
		ok = ok && proto.Unmarshal(e.value, r) == nil && string(r.Name) == string(e.key)
	case 3:
		ok = proto.Unmarshal(e.key, new(pb.AlarmMember)) == nil
	default:
		ok = false
	}
	if !ok {
		return errUsers
	}
	return nil
}

// userEntries returns all entries. It returns none if users were never changed.
func (h *heap) userEntries() (all []userEntry) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for i, bucket := range userBuckets {
		entries := h.others[bucket.ID()]
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			all = append(all, userEntry{byte(i), []byte(key), entries[key]})
		}
	}
	if len(all) == 1 && string(all[0].value) == string(binary.BigEndian.AppendUint64(nil, 1)) {
		return nil // the revision of authentication of a new etcd
	}
	return all
}

// appendUsers encodes the beginning of a snapshot that has users.
func appendUsers(b []byte, all []userEntry) []byte {
	if len(all) == 0 {
		return b
	}
	b = binary.AppendUvarint(append(b, usersFirst...), uint64(len(all)))
	for _, e := range all {
		b = append(b, e.bucket)
		b = append(binary.AppendUvarint(b, uint64(len(e.key))), e.key...)
		b = append(binary.AppendUvarint(b, uint64(len(e.value))), e.value...)
	}
	return b
}

// readUsers reads the beginning of a snapshot, if it has users.
func readUsers(r *bufio.Reader) (all []userEntry, err error) {
	first, err := r.Peek(len(usersFirst))
	if err != nil || string(first) != string(usersFirst) {
		return nil, nil // too short a snapshot is refused by what follows
	}
	_, _ = r.Discard(len(usersFirst)) // they are buffered
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	for range n {
		var e userEntry
		if e.bucket, err = r.ReadByte(); err != nil {
			return nil, err
		}
		if e.key, err = readMessage(r); err != nil {
			return nil, err
		}
		if e.value, err = readMessage(r); err != nil {
			return nil, err
		}
		if err := e.check(); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// readUsers reads the users from a database file.
func (s *Snapshot) readUsers(tx *bbolt.Tx) error {
	for i, bucket := range userBuckets {
		b := tx.Bucket(bucket.Name())
		if b == nil {
			continue
		}
		err := b.ForEach(func(key, value []byte) error {
			e := userEntry{byte(i), slices.Clone(key), slices.Clone(value)}
			s.users = append(s.users, e)
			return e.check()
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDatabase, err)
		}
	}
	return nil
}
