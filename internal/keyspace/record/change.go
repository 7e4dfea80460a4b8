package record

import (
	"crypto/subtle"
	"errors"
	"fmt"
)

// CheckChange returns an error if no gateway makes a record out of the one before it. before is nil if there is none.
func CheckChange(before, after *Keyspace) error {
	switch {
	case before == nil && len(after.Secret) == 0:
		return errors.New("a keyspace has a secret")
	case before == nil && after.Newest() > 0:
		return errors.New("a keyspace that does not exist has no era")
	case before == nil:
		return nil
	case before.ID != after.ID:
		return fmt.Errorf("keyspace %s has the number %x, not %x: this is another keyspace of that name",
			before.Name, before.ID, after.ID)
	}
	if subtle.ConstantTimeCompare(before.Secret, after.Secret) != 1 {
		return fmt.Errorf("keyspace %s has another secret", before.Name)
	}
	return before.Record.CheckChange(&after.Record)
}
