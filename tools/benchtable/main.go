// Command benchtable turns what 'go test -bench' prints into one table: what was measured, its hold, its moonshot, and
// whether it is held; and it compares two runs.
//
//	benchtable pattern                          the benchmarks that have a hold, for -bench
//	benchtable table COPY < OUTPUT              the table; COPY gets it for machines
//	benchtable check BEFORE AFTER               what got slower than noise; fails if anything did
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "pattern":
		fmt.Fprintln(out, pattern())
		return nil
	case len(args) == 2 && args[0] == "table":
		return table(args[1], in, out)
	case len(args) == 3 && args[0] == "check":
		before, err := load(args[1])
		if err != nil {
			return err
		}
		after, err := load(args[2])
		if err != nil {
			return err
		}
		return check(before, after, out)
	}
	return fmt.Errorf("usage: benchtable pattern | table COPY | check BEFORE AFTER")
}

// bench is one run, for machines.
type bench struct {
	When    time.Time            `json:"when"`
	Machine string               `json:"machine"`
	Load    string               `json:"load"` // when it ended
	Figures []figure             `json:"figures"`
	All     map[string][]float64 `json:"all"` // every metric of every round, by benchmark and unit
}

// figure is a row of the table.
type figure struct {
	What     string    `json:"what"`
	Metric   string    `json:"metric"` // benchmark and unit
	Rounds   []float64 `json:"rounds"`
	Median   float64   `json:"median"`
	Hold     string    `json:"hold"`
	Moonshot string    `json:"moonshot,omitempty"`
	Verdict  string    `json:"verdict"`
}

func table(copyTo string, in io.Reader, out io.Writer) error {
	all, err := parse(in)
	if err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	b := bench{
		When:    time.Now().UTC(),
		Machine: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Load:    strings.Join(strings.Fields(string(load) + " - - -")[:3], " "), All: all,
	}
	for _, h := range holds {
		if f, ok := h.figure(all); ok {
			b.Figures = append(b.Figures, f)
		}
	}
	if len(b.Figures) == 0 {
		return fmt.Errorf("no benchmark with a hold was run")
	}
	print(b, out)
	raw, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(copyTo, append(raw, '\n'), 0o644)
}

func print(b bench, out io.Writer) {
	rows := [][]string{{"WHAT", "MEDIAN", "LOWEST", "HIGHEST", "HOLD", "MOONSHOT", ""}}
	for _, f := range b.Figures {
		low, high := bounds(f.Rounds)
		rows = append(rows, []string{f.What, number(f.Median), number(low), number(high), f.Hold, f.Moonshot, f.Verdict})
	}
	wide := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			wide[i] = max(wide[i], len([]rune(cell)))
		}
	}
	fmt.Fprintf(out, "%s; load %s when it ended; %s\n\n", b.Machine, b.Load, b.When.Format(time.RFC3339))
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(cell + strings.Repeat(" ", wide[i]-len([]rune(cell))+2))
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

func load(path string) (b bench, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}
