package record

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// Limits of a record.
const (
	maxDisks    = 9
	maxGateways = 64
	maxText     = 253 // bytes of a member's name or of an address
	secretBytes = 32
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckName returns an error for a name that no keyspace on disks can have.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("keyspace name %q: letters, digits, dots, dashes and underscores are wanted, at most 63", name)
	}
	return nil
}

// CheckMember returns an error for a name that no gateway can have.
func CheckMember(name string) error {
	if !printable(name) {
		return fmt.Errorf("gateway name %q: printable characters are wanted, at most %d", name, maxText)
	}
	return nil
}

// Keyspace is a keyspace with its record.
type Keyspace struct {
	Name string
	ID   uint64 // drawn when it was made
	// Secret is that by which gateways know each other, drawn too. It is missing in what users see.
	Secret []byte
	driver.State
}

// Encode returns the message of a record.
func Encode(k *Keyspace) *controllerv1.Keyspace {
	out := &controllerv1.Keyspace{
		Name: k.Name, Id: k.ID, Secret: k.Secret,
		Recovering: k.Recovering, Next: encodeDisks(k.Next), Lost: encodeDisks(k.Lost),
		Active: &controllerv1.KeyspaceEra{
			Number: k.Active.Number, Disks: encodeDisks(k.Active.Set),
			Base: &controllerv1.KeyspacePosition{
				Era: k.Active.Base.Era, Index: k.Active.Base.Index, Term: k.Active.Base.Term,
			},
			Cut: k.Active.Cut,
		},
	}
	for _, g := range k.Gateways {
		out.Gateways = append(out.Gateways, &controllerv1.KeyspaceGateway{
			Disk: encodeDisk(g.Disk), Member: g.Member, Address: g.Address,
		})
	}
	return out
}

func encodeDisk(d core.Disk) *controllerv1.KeyspaceDisk {
	return &controllerv1.KeyspaceDisk{Name: d.Name, Identity: d.Identity}
}

func encodeDisks(disks []core.Disk) (out []*controllerv1.KeyspaceDisk) {
	for _, d := range disks {
		out = append(out, encodeDisk(d))
	}
	return out
}

// Decode reads a message, and returns an error for a record that no gateway can have written.
func Decode(in *controllerv1.Keyspace) (*Keyspace, error) {
	k := &Keyspace{Name: in.GetName(), ID: in.GetId(), Secret: in.GetSecret()}
	base := in.GetActive().GetBase()
	k.Record = core.Record{
		Active: core.Era{
			Number: in.GetActive().GetNumber(), Set: decodeDisks(in.GetActive().GetDisks()),
			Base: core.Position{Era: base.GetEra(), Index: base.GetIndex(), Term: base.GetTerm()},
			Cut:  in.GetActive().GetCut(),
		},
		Recovering: in.GetRecovering(), Next: decodeDisks(in.GetNext()), Lost: decodeDisks(in.GetLost()),
	}
	for _, g := range in.GetGateways() {
		k.Gateways = append(k.Gateways, driver.Gateway{
			Disk: decodeDisk(g.GetDisk()), Member: g.GetMember(), Address: g.GetAddress(),
		})
	}
	if err := k.check(); err != nil {
		return nil, fmt.Errorf("the record of keyspace %q is not valid: %w", k.Name, err)
	}
	return k, nil
}

func decodeDisk(in *controllerv1.KeyspaceDisk) core.Disk {
	return core.Disk{Name: in.GetName(), Identity: in.GetIdentity()}
}

func decodeDisks(in []*controllerv1.KeyspaceDisk) (disks []core.Disk) {
	for _, d := range in {
		disks = append(disks, decodeDisk(d))
	}
	return disks
}

func (k *Keyspace) check() error {
	r := &k.Record
	switch {
	case k.ID == 0:
		return errors.New("it has no number")
	case len(k.Secret) != 0 && len(k.Secret) != secretBytes:
		return fmt.Errorf("its secret has %d bytes, not %d", len(k.Secret), secretBytes)
	case r.Active.Number == 0 && (len(r.Active.Set) > 0 || r.Active.Base != core.Position{} || r.Active.Cut):
		return errors.New("it has no era, but disks or a base of one")
	case r.Active.Number > 0 && r.Active.Base.Era >= r.Active.Number:
		return fmt.Errorf("era %d begins with a state of era %d", r.Active.Number, r.Active.Base.Era)
	case r.Recovering > 0 && r.Recovering <= r.Active.Number:
		return fmt.Errorf("era %d is prepared, and era %d is active", r.Recovering, r.Active.Number)
	case r.Recovering == 0 && len(r.Next) > 0:
		return errors.New("no era is prepared, but there are disks for one")
	}
	return errors.Join(CheckName(k.Name), checkDisks(r.Active.Set), checkDisks(r.Next), k.checkLost(), k.checkGateways())
}

func (k *Keyspace) checkLost() error {
	if len(k.Lost) == 0 {
		return nil
	}
	before := k.Record
	before.Lost = nil
	_, err := before.GiveUp(k.Lost)
	return errors.Join(err, checkDisks(k.Lost))
}

func checkDisks(disks []core.Disk) error {
	if len(disks) > maxDisks {
		return fmt.Errorf("an era has %d disks, and at most %d are possible", len(disks), maxDisks)
	}
	for i, d := range disks {
		same := func(other core.Disk) bool { return other.Name == d.Name }
		if d.Name == 0 || d.Identity == 0 || slices.ContainsFunc(disks[:i], same) {
			return fmt.Errorf("disk %x/%x has no name or identity, or its gateway has two", d.Name, d.Identity)
		}
	}
	return nil
}

func (k *Keyspace) checkGateways() error {
	if len(k.Gateways) > maxGateways {
		return fmt.Errorf("it has %d gateways, and at most %d are possible", len(k.Gateways), maxGateways)
	}
	before := ""
	for _, g := range k.Gateways {
		host, port, err := net.SplitHostPort(g.Address)
		switch {
		case g.Member <= before:
			return fmt.Errorf("gateway %q is not behind %q: they are sorted, and each is there once", g.Member, before)
		case CheckMember(g.Member) != nil:
			return CheckMember(g.Member)
		case !printable(g.Address):
			return fmt.Errorf("gateway %q at %q: printable characters are wanted, at most %d", g.Member, g.Address, maxText)
		case err != nil || host == "" || port == "":
			return fmt.Errorf("gateway %q has the address %q: HOST:PORT is wanted", g.Member, g.Address)
		case g.Disk.Name == 0:
			return fmt.Errorf("gateway %q has no number", g.Member)
		}
		before = g.Member
	}
	return nil
}

func printable(text string) bool {
	return len(text) <= maxText && !strings.ContainsFunc(text, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsGraphic(r)
	})
}
