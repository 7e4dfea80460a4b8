package core

// Action is something that the caller does for a [Replica] or a [Recovery].
type Action interface{ action() }

// Actions of a [Replica].
type (
	// ReadLog asks to read cells of an era's log in the chain, from Index on, as many as the caller likes and at least
	// one. [Replica.Log] takes the answer.
	ReadLog struct{ Call, Era, Index uint64 }
	// Append asks to write entries From to To of an era's log, as they were read, to the own disk behind what it has.
	Append struct{ Seq, Era, From, To uint64 }
	// Mark asks to write to the own disk that its entries up to Position.Index are the state with which Position.Era
	// begins, and that entries behind it do not count.
	Mark struct {
		Seq      uint64
		Position Position
	}
	// Store asks to replace the content of the own disk by the state that came with [Replica.Install] or
	// [Replica.Fetched].
	Store struct {
		Seq      uint64
		Position Position
	}
	// Vow asks to write to the own disk that no entry of an era below Era is stored any more.
	Vow struct{ Seq, Era uint64 }
	// Report asks to tell the gateway of a disk, or all others if it is zero, that the own disk has the entries of an era
	// up to Index, that the chain has those up to Log, which the own gateway wrote, and that those up to Counted count.
	Report struct {
		Era, Index, Log, Counted uint64
		To                       Disk // not told
	}
	// Remind asks to call [Replica.Remind] in a moment, from the last Remind on, unless [Replica.Tell] is called before.
	Remind struct{}
	// Fetch asks for the state of an era from another gateway that has applied Index or more of it.
	// [Replica.Fetched] takes the answer.
	Fetch struct{ Era, Index uint64 }
	// Enter asks to replace what was read of an earlier era's log, and was not applied, by the entries of the own disk.
	Enter struct{ Era uint64 }
	// Advance asks to apply and show all entries up to Index.
	Advance struct{ Index uint64 }
	// Ready answers reads from the state that is applied.
	Ready struct{ Reads []uint64 }
	// Answer replies to [Replica.Ask] or [Replica.Install]. Last is what the disk has. Promised is the era that the disk
	// has promised if the call is refused, and 0 otherwise.
	Answer struct {
		Call     uint64
		Last     Position
		Promised uint64
	}
)

// Actions of a [Recovery].
type (
	// WriteRecord asks to replace the record that the recovery has read or written last. [Recovery.Wrote] takes the answer.
	WriteRecord struct{ Record Record }
	// AskDisks asks to call [Replica.Ask] at the gateways of disks. [Recovery.Promised] takes the answers.
	AskDisks struct {
		Era   uint64
		Disks []Disk
	}
	// Take asks for the whole content of a disk. [Recovery.Taken] takes the answer.
	Take struct{ From Disk }
	// ReadCell asks to read a cell of an era's log. [Recovery.Found] takes the answer.
	ReadCell struct{ Era, Index uint64 }
	// WriteSeal asks to write a seal into the cell that was read last, if it has not changed since. [Recovery.SealWritten]
	// takes the answer.
	WriteSeal struct{ Era, Index, Term uint64 }
	// InstallBase asks to call [Replica.Install] at the gateways of disks, with the content that was taken.
	// [Recovery.Installed] takes the answers.
	InstallBase struct {
		Base  Position
		Disks []Disk
	}
	// MakeLog asks to make the log of an era in the chain, with no entry. Its first one will be First.
	// [Recovery.LogMade] takes the answer.
	MakeLog struct{ Era, First uint64 }
)

func (ReadLog) action()     {}
func (Append) action()      {}
func (Mark) action()        {}
func (Store) action()       {}
func (Vow) action()         {}
func (Report) action()      {}
func (Remind) action()      {}
func (Fetch) action()       {}
func (Enter) action()       {}
func (Advance) action()     {}
func (Ready) action()       {}
func (Answer) action()      {}
func (WriteRecord) action() {}
func (AskDisks) action()    {}
func (Take) action()        {}
func (ReadCell) action()    {}
func (WriteSeal) action()   {}
func (InstallBase) action() {}
func (MakeLog) action()     {}
