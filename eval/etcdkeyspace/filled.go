package etcdkeyspace

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// Table returns a row for each gateway.
func (r *Filled) Table() (header []string, rows [][]string) {
	for i, n := range r.ResidentBytes {
		rows = append(rows, []string{
			fmt.Sprint(i + 1), humanize.IBytes(uint64(n)), fmt.Sprintf("%.2f", float64(n)/float64(r.StoredBytes)),
			humanize.IBytes(uint64(r.DiskBytes[i])),
		})
	}
	return []string{"gateway", "memory", "to what is stored", "disk"}, rows
}

// Summary describes the load and the restart.
func (r *Filled) Summary() string {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Millisecond) }
	beside := ""
	if r.Beside != nil {
		beside = fmt.Sprintf("\nA put takes %.0f µs of CPU time with agents and the controller. mem_etcd: %.0f µs, and "+
			"%.2f times the memory of what is stored.", r.PutCPU, r.Beside.PutCPU, r.Beside.ResidentRatio)
	}
	return fmt.Sprintf("%s in %s keys with values of %d bytes, put in %v, a tenth of them twice, "+
		"%d transactions of unknown outcome; memory after a compaction.\n"+
		"A gateway that was killed answered %v after its start, all keys there.%s",
		humanize.IBytes(uint64(r.StoredBytes)), humanize.Comma(int64(r.Keys)), r.ValueBytes, seconds(r.FillSeconds),
		r.Unknown, seconds(r.RestartSeconds), beside)
}
