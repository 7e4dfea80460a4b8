package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"text/tabwriter"
)

// Report is a benchmark result in rows, for people and for spreadsheets.
type Report interface {
	// Table returns the names of the columns and the rows.
	Table() (header []string, rows [][]string)
	// Summary explains the rows and names the machine, in a sentence.
	Summary() string
}

// WriteTable writes a report as aligned columns followed by the summary.
func WriteTable(w io.Writer, r Report) error {
	header, rows := r.Table()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{header}, rows...) {
		for _, cell := range row {
			fmt.Fprint(t, cell, "\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.Summary())
	return err
}

// WriteCSV writes a report's rows.
func WriteCSV(w io.Writer, r Report) error {
	header, rows := r.Table()
	return csv.NewWriter(w).WriteAll(append([][]string{header}, rows...))
}

// count formats a rate of events per second for a table cell.
func count(perSecond float64) string { return fmt.Sprintf("%.0f", perSecond) }

// String describes the machine in one line.
func (m Host) String() string {
	jit := "BPF JIT on"
	if !m.JIT {
		jit = "BPF JIT off"
	}
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s", m.CPU, m.CPUs, m.Kernel, jit)
}

// Table returns one row per round.
func (r *ReadResult) Table() ([]string, [][]string) {
	header := []string{"round", "reads/s", "swap/s", "ratio", "socket echo/s", "ratio"}
	if r.Switch != nil {
		header = append(header, "p4 swap/s", "ratio", "xdp reads/s", "ratio")
	}
	var rows [][]string
	for i, x := range r.Rounds {
		row := readRow(fmt.Sprint(i+1), x.ReadsPerS, x.EchoPerS, x.SocketEchoPerS)
		if r.Switch != nil {
			row = append(row, count(x.SwitchSwapPerS), fmt.Sprintf("%.2f", x.ReadsPerS/x.SwitchSwapPerS),
				count(x.XDPReadsPerS), fmt.Sprintf("%.3f", x.ReadsPerS/x.XDPReadsPerS))
		}
		rows = append(rows, row)
	}
	median := readRow("median", r.ReadsPerS, r.EchoPerS, r.SocketEchoPerS)
	median[3], median[5] = fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.1f", r.RatioToSocketEcho)
	if s := r.Switch; s != nil {
		median = append(median, count(s.SwapPerS), fmt.Sprintf("%.2f", s.RatioToSwap), count(s.XDPReadsPerS),
			fmt.Sprintf("%.3f", s.RatioToXDP))
	}
	return header, append(rows, median)
}

func readRow(name string, reads, swaps, sockets float64) []string {
	return []string{
		name, count(reads), count(swaps), fmt.Sprintf("%.2f", reads/swaps), count(sockets),
		fmt.Sprintf("%.1f", reads/sockets),
	}
}

// Summary explains the contestants.
func (r *ReadResult) Summary() string {
	return fmt.Sprintf("%d keys of %d bytes%s, on plane %s: %d answers checked, %d wrong, %d lost.\n"+
		"swap: an XDP program that sends the same sizes back; socket echo: recvmmsg and sendmmsg on %d threads.\n%v",
		r.Keys, r.ValueBytes, inFrames(r.Slots), r.describe(), r.Sent-r.Lost, r.Wrong, r.Lost, r.Host.CPUs, r.Host)
}
