package cli

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// misused is a command with flags and arguments of all kinds.
func misused() *cobra.Command {
	c := &cobra.Command{Use: "watch KEY...", Args: cobra.MinimumNArgs(1), RunE: func(*cobra.Command, []string) error { return nil }}
	f := c.Flags()
	f.Duration("timeout", time.Second, "")
	f.Uint32("shard", 0, "")
	f.Int("most", 0, "")
	f.Float64("loss", 0, "")
	f.Bool("json", false, "")
	f.StringSlice("controllers", nil, "")
	f.StringSlice("etcd-endpoints", nil, "")
	f.StringToString("labels", nil, "")
	f.Var(new(LogFormat), "log-format", "")
	f.Bool("secret", false, "")
	if err := f.MarkHidden("secret"); err != nil {
		panic(err) // the flag was defined just above
	}
	return c
}

// TestMisuseIsExplained: wrong flags and arguments are answered by what would be right, without the words of Go's libraries.
func TestMisuseIsExplained(t *testing.T) {
	for line, want := range map[string]string{
		"watch k --contollers x":      "unknown flag: --contollers; did you mean --controllers?",
		"watch k -controllers x":      "unknown flag: -controllers; did you mean --controllers?",
		"watch k --endpoints x":       "unknown flag: --endpoints; did you mean --etcd-endpoints?",
		"watch k --etcd x":            "unknown flag: --etcd; did you mean --etcd-endpoints?",
		"watch k --tiemout 5s":        "unknown flag: --tiemout; did you mean --timeout?",
		"watch k --secrte":            "unknown flag: --secrte; `netcraq watch --help` lists the flags",
		"watch k -x":                  "unknown flag: -x; `netcraq watch --help` lists the flags",
		"watch k --timeout 5":         `--timeout "5": want a time with its unit, such as 5s or 300ms`,
		"watch k --shard -1":          `--shard "-1": want a whole number of at least 0`,
		"watch k --shard 99999999999": `--shard "99999999999": the number is too large`,
		"watch k --most x":            `--most "x": want a whole number`,
		"watch k --loss x":            `--loss "x": want a number, such as 0.5`,
		"watch k --json=perhaps":      `--json "perhaps": want true or false`,
		"watch k --labels zone":       `--labels "zone": want pairs such as zone=a,rack=3`,
		"watch k --log-format xml":    `--log-format "xml": want text or json`,
		"watch":                       "0 arguments given: want netcraq watch KEY... [flags]; --help says more",
		"version x":                   "1 argument given: want netcraq version [flags]; --help says more",
		"group meber":                 `unknown command "meber" for "netcraq group"; did you mean member?`,
		"group klingon":               "unknown command \"klingon\" for \"netcraq group\"; `netcraq group --help` lists its commands",
	} {
		group := &cobra.Command{Use: "group"}
		group.AddCommand(&cobra.Command{Use: "member", Run: func(*cobra.Command, []string) {}})
		root, started := newRoot("a test", []*cobra.Command{group, misused()})
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(strings.Fields(line))
		err := root.Execute()
		if err == nil || err.Error() != want || ExitStatus(err, *started) != ExitUsage {
			t.Errorf("netcraq %s: %v, want %s", line, err, want)
		}
	}
}
