package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/netcraq/netcraq/p4/spec"
)

// sizedKeys are the numbers of keys of the table of sizes.
var sizedKeys = []int{1_000, 10_000, 100_000, 1_000_000}

// metadataLimitBytes is the length of metadata that SWX addresses.
const metadataLimitBytes = 256

const bytesPerMiB = 1 << 20

// use is what one program needs on a target, apart from instructions.
type use struct {
	entryBits, entryRegisterBits, entryCounterBits int // of each key
	sessionBits, otherBits                         int // of all sessions; of everything else
	sessions                                       int
}

// writeSizes describes what the programs need, as Markdown.
func writeSizes(w io.Writer, root string) error {
	arrays, err := declarations(filepath.Join(root, product.path))
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "| program | tables | arrays | headers | metadata, bytes of 256 | instructions |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	var node *spec.Program
	for _, f := range folders {
		for _, source := range f.programs {
			p, err := readProgram(filepath.Join(root, f.path), source)
			if err != nil {
				return err
			}
			if node == nil {
				node = p
			}
			fmt.Fprintf(w, "| `%s` | %d | %d | %d | %d | %d |\n", source, len(p.Tables), len(p.Arrays), len(p.Headers),
				spec.BitsOf(p.Structs[p.Metadata])/8, p.Instructions)
		}
	}
	fmt.Fprintln(w)
	if err := writeTables(w, node); err != nil {
		return err
	}
	u, err := useOf(node, arrays)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	u.write(w)
	return nil
}

func readProgram(dir, source string) (*spec.Program, error) {
	name := strings.TrimSuffix(source, ".p4") + ".spec"
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	p, err := spec.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes := spec.BitsOf(p.Structs[p.Metadata]) / 8; bytes > metadataLimitBytes {
		return nil, fmt.Errorf("%s: %d bytes of metadata, SWX has %d", name, bytes, metadataLimitBytes)
	}
	return p, nil
}

func writeTables(w io.Writer, p *spec.Program) error {
	fmt.Fprintln(w, "| table | key, bits | data, bits | entries |")
	fmt.Fprintln(w, "|---|---|---|---|")
	for i := range p.Tables {
		t := &p.Tables[i]
		bits, err := keyBits(p, t)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| `%s` | %d | %d | %d |\n", t.Name, bits, dataBits(p, t), t.Entries)
	}
	return nil
}

// Prefixes of the names of the tables and arrays of keys and of sessions in p4/state.p4.
const (
	keyTable      = "state_objects"
	keyValues     = "state_value"
	keyState      = "state_object_"
	sessionState  = "state_session_"
	sessionSeq    = "state_session_seq" // one register for each session
	countersReads = "_reads"
	countersWrite = "_writes"
)

func useOf(p *spec.Program, arrays map[string]declared) (u use, err error) {
	for i := range p.Tables {
		t := &p.Tables[i]
		bits, err := keyBits(p, t)
		if err != nil {
			return u, err
		}
		if bits += dataBits(p, t); t.Name == keyTable {
			u.entryBits = bits
		} else {
			u.otherBits += bits * t.Entries
		}
	}
	for _, a := range p.Arrays {
		is, err := declarationOf(a, arrays)
		if err != nil {
			return u, err
		}
		ofKey := strings.HasPrefix(a.Name, keyState) || strings.HasPrefix(a.Name, keyValues)
		switch counter := strings.HasSuffix(a.Name, countersReads) || strings.HasSuffix(a.Name, countersWrite); {
		case ofKey && counter:
			u.entryCounterBits += is.bits
		case ofKey:
			u.entryRegisterBits += is.bits
		case strings.HasPrefix(a.Name, sessionState):
			u.sessionBits += is.bits * a.Size
		default:
			u.otherBits += is.bits * a.Size
		}
		if a.Name == sessionSeq {
			u.sessions = a.Size
		}
	}
	return u, nil
}

func (u *use) write(w io.Writer) {
	fmt.Fprintf(w, "| keys | key table, MiB | registers of keys, MiB | counters of keys, MiB | %d sessions, MiB | "+
		"shards, routes, counters, MiB | sum, MiB |\n", u.sessions)
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
	mib := func(bits int) string { return fmt.Sprintf("%.2f", float64(bits)/8/bytesPerMiB) }
	for _, keys := range sizedKeys {
		table, registers, counters := keys*u.entryBits, keys*u.entryRegisterBits, keys*u.entryCounterBits
		fmt.Fprintf(w, "| %d | %s | %s | %s | %s | %s | %s |\n", keys, mib(table), mib(registers), mib(counters),
			mib(u.sessionBits), mib(u.otherBits), mib(table+registers+counters+u.sessionBits+u.otherBits))
	}
	fmt.Fprintf(w, "\nA key needs %d bits in its table, %d bits of registers and %d bits of counters.\n", u.entryBits,
		u.entryRegisterBits, u.entryCounterBits)
}
