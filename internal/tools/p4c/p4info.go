package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/p4/spec"
)

// Names of the headers between a controller and the switch. What p4c's program calls platform is in front of a frame to
// the CPU port; the engine makes it for a frame that comes back, from the port.
const (
	packetIn       = "packet_in"
	packetOut      = "packet_out"
	platformHeader = "platform"
	portField      = "port"
)

const p4infoNote = `# proto-file: p4/config/v1/p4info.proto
# proto-message: p4.config.v1.P4Info
# Made by internal/tools/p4c from what p4c made of the program.
`

// infoName is the file of a program's P4Info.
func infoName(program string) string { return strings.TrimSuffix(program, ".p4") + ".p4info.txtpb" }

// named is the part of p4c's output for BMv2 that has the control plane's names.
type named struct {
	Pipelines []struct {
		Tables []namedTable `json:"tables"`
	} `json:"pipelines"`
	Arrays   []namedArray `json:"register_arrays"`
	Counters []namedArray `json:"counter_arrays"`
	Headers  []struct {
		Name   string  `json:"name"`
		Fields [][]any `json:"fields"`
	} `json:"header_types"`
}

type namedArray struct {
	Name string `json:"name"`
}

type namedTable struct {
	Name string `json:"name"`
	Key  []struct {
		Name string `json:"name"`
	} `json:"key"`
	Actions []string `json:"actions"`
}

// writeInfo writes the P4Info of each program of the folder.
func (f *folder) writeInfo() error {
	for _, program := range f.programs {
		info, err := infoOf(f.path, program)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(f.path, infoName(program)), infoText(info), 0o644); err != nil {
			return err
		}
	}
	info, err := v1modelInfo(f.path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.path, v1modelInfoName), infoText(info), 0o644)
}

// verifyInfo compares the committed P4Info of each program with that of its compiled files.
func verifyInfo(dir string, programs []string) error {
	for _, program := range programs {
		want, err := infoOf(dir, program)
		if err != nil {
			return err
		}
		if err := sameInfo(dir, infoName(program), want); err != nil {
			return err
		}
	}
	want, err := v1modelInfo(dir)
	if err != nil {
		return err
	}
	return sameInfo(dir, v1modelInfoName, want)
}

// sameInfo fails if a committed P4Info differs from the wanted one.
func sameInfo(dir, name string, want *config.P4Info) error {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	var have config.P4Info
	if err := prototext.Unmarshal(text, &have); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !proto.Equal(want, &have) {
		return fmt.Errorf("%s is not that of the compiled program: run `go run ./internal/tools/p4c -p4info`", name)
	}
	return nil
}

var afterColon = regexp.MustCompile(`(?m)^(\s*\w+:) +`)

// infoText is a P4Info as text. The library varies its spaces.
func infoText(info *config.P4Info) []byte {
	text := prototext.MarshalOptions{Multiline: true, Indent: "  "}.Format(info)
	return append([]byte(p4infoNote), strings.ReplaceAll(afterColon.ReplaceAllString(text, "$1 "), "  {", " {")...)
}

// infoOf makes the P4Info of a compiled program.
func infoOf(dir, program string) (*config.P4Info, error) {
	p, err := readProgram(dir, program)
	if err != nil {
		return nil, err
	}
	names, err := readNames(filepath.Join(dir, v1modelFile(program)))
	if err != nil {
		return nil, err
	}
	declared, err := declarations(dir)
	if err != nil {
		return nil, err
	}
	b := infoBuilder{program: p, ids: make(map[uint32]bool), info: &config.P4Info{
		PkgInfo: &config.PkgInfo{Name: program, Arch: "psa"},
	}}
	for _, pipeline := range names.Pipelines {
		for i := range pipeline.Tables {
			if err := b.table(&pipeline.Tables[i]); err != nil {
				return nil, err
			}
		}
	}
	if len(b.info.Tables) != len(p.Tables) {
		return nil, fmt.Errorf("%s has %d tables, the other backend names %d", program, len(p.Tables), len(b.info.Tables))
	}
	for _, a := range append(names.Arrays, names.Counters...) {
		if err := b.array(a.Name, declared); err != nil {
			return nil, err
		}
	}
	if b.arrays != len(p.Arrays) {
		return nil, fmt.Errorf("%s has %d arrays, the other backend names %d", program, len(p.Arrays), b.arrays)
	}
	b.packets()
	b.aliases()
	return b.info, nil
}

func readNames(path string) (*named, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	names := new(named)
	return names, json.Unmarshal(text, names)
}

type infoBuilder struct {
	program *spec.Program
	info    *config.P4Info
	ids     map[uint32]bool
	arrays  int
}

// table adds a table that stands in the source. The others have no key, and p4c made them of statements.
func (b *infoBuilder) table(n *namedTable) error {
	t := b.program.Table(n.Name)
	if t == nil {
		return nil
	}
	bits, err := b.program.KeyBits(t)
	if err != nil {
		return err
	}
	if len(bits) != len(n.Key) {
		return fmt.Errorf("table %s has %d keys, the other backend names %d", n.Name, len(bits), len(n.Key))
	}
	out := &config.Table{Preamble: b.preamble(config.P4Ids_TABLE, n.Name), Size: int64(t.Entries)}
	for i, key := range n.Key {
		out.MatchFields = append(out.MatchFields, &config.MatchField{
			Id: uint32(i + 1), Name: key.Name, Bitwidth: int32(bits[i]),
			Match: &config.MatchField_MatchType_{MatchType: config.MatchField_EXACT},
		})
	}
	for _, name := range n.Actions {
		action := t.Action(name)
		if action == nil {
			return fmt.Errorf("table %s has no action %s", n.Name, name)
		}
		ref := &config.ActionRef{Id: b.action(name, action.Name)}
		switch {
		case action.TableOnly:
			ref.Scope = config.ActionRef_TABLE_ONLY
		case action.DefaultOnly:
			ref.Scope = config.ActionRef_DEFAULT_ONLY
		}
		if t.Const && action.Name == t.Default {
			out.ConstDefaultActionId = ref.Id
		}
		out.ActionRefs = append(out.ActionRefs, ref)
	}
	b.info.Tables = append(b.info.Tables, out)
	return nil
}

// action adds an action unless it is there, and returns its number.
func (b *infoBuilder) action(name, compiled string) uint32 {
	for _, a := range b.info.Actions {
		if a.Preamble.Name == name {
			return a.Preamble.Id
		}
	}
	a := &config.Action{Preamble: b.preamble(config.P4Ids_ACTION, name)}
	for i, f := range b.program.Parameters(compiled) {
		a.Params = append(a.Params, &config.Action_Param{Id: uint32(i + 1), Name: f.Name, Bitwidth: int32(f.Bits)})
	}
	b.info.Actions = append(b.info.Actions, a)
	return a.Preamble.Id
}

// array adds an array of registers or of counters.
func (b *infoBuilder) array(name string, declared map[string]declared) error {
	a := b.program.Array(name)
	if a == nil {
		return fmt.Errorf("the compiled program has no array %s", name)
	}
	is, err := declarationOf(*a, declared)
	if err != nil {
		return err
	}
	if is.counter {
		b.info.Counters = append(b.info.Counters, &config.Counter{
			Preamble: b.preamble(config.P4Ids_COUNTER, name), Size: int64(a.Size),
			Spec: &config.CounterSpec{Unit: config.CounterSpec_PACKETS},
		})
	} else {
		b.info.Registers = append(b.info.Registers, &config.Register{
			Preamble: b.preamble(config.P4Ids_REGISTER, name), Size: int32(a.Size), TypeSpec: bitType(is.bits),
		})
	}
	b.arrays++
	return nil
}

func bitType(bits int) *config.P4DataTypeSpec {
	return &config.P4DataTypeSpec{TypeSpec: &config.P4DataTypeSpec_Bitstring{
		Bitstring: &config.P4BitstringLikeTypeSpec{TypeSpec: &config.P4BitstringLikeTypeSpec_Bit{
			Bit: &config.P4BitTypeSpec{Bitwidth: int32(bits)},
		}},
	}}
}

// packets adds the headers of frames from and to the CPU port.
func (b *infoBuilder) packets() {
	in := &config.ControllerPacketMetadata{Preamble: b.preamble(config.P4Ids_CONTROLLER_HEADER, packetIn)}
	out := &config.ControllerPacketMetadata{Preamble: b.preamble(config.P4Ids_CONTROLLER_HEADER, packetOut)}
	for i, f := range b.program.Structs[b.program.Headers[platformHeader]] {
		m := &config.ControllerPacketMetadata_Metadata{Id: uint32(i + 1), Name: f.Name, Bitwidth: int32(f.Bits)}
		in.Metadata = append(in.Metadata, m)
		if f.Name == portField {
			out.Metadata = append(out.Metadata, &config.ControllerPacketMetadata_Metadata{
				Id: 1, Name: f.Name, Bitwidth: int32(f.Bits),
			})
		}
	}
	if len(in.Metadata) > 0 {
		b.info.ControllerPacketMetadata = []*config.ControllerPacketMetadata{in, out}
	}
}

func (b *infoBuilder) preamble(kind config.P4Ids_Prefix, name string) *config.Preamble {
	id := infoID(kind, name)
	for b.ids[id] {
		id = uint32(kind)<<24 | (id+1)&(1<<24-1)
	}
	b.ids[id] = true
	return &config.Preamble{Id: id, Name: name}
}

// infoID is the number that p4c gives a part of a program: the kind, and Jenkins's one-at-a-time hash of the name.
func infoID(kind config.P4Ids_Prefix, name string) uint32 {
	var h uint32
	for i := range len(name) {
		h += uint32(name[i])
		h += h << 10
		h ^= h >> 6
	}
	h += h << 3
	h ^= h >> 11
	h += h << 15
	return uint32(kind)<<24 | h&(1<<24-1)
}

// aliases gives each part the shortest end of its name that no other of its kind has.
func (b *infoBuilder) aliases() {
	set := func(all []*config.Preamble) {
		for _, p := range all {
			parts := strings.Split(p.Name, ".")
			for n := 1; n <= len(parts) && p.Alias == ""; n++ {
				end := strings.Join(parts[len(parts)-n:], ".")
				if !slices.ContainsFunc(all, func(o *config.Preamble) bool {
					return o != p && strings.HasSuffix("."+o.Name, "."+end)
				}) {
					p.Alias = end
				}
			}
		}
	}
	set(preambles(b.info.Tables))
	set(preambles(b.info.Actions))
	set(preambles(b.info.Counters))
	set(preambles(b.info.Registers))
	set(preambles(b.info.ControllerPacketMetadata))
}

func preambles[T interface{ GetPreamble() *config.Preamble }](of []T) (all []*config.Preamble) {
	for _, o := range of {
		all = append(all, o.GetPreamble())
	}
	return all
}
