package rpc_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra"
)

var update = flag.Bool("update", false, "write testdata/matrix.txt anew")

const matrixFile = "testdata/matrix.txt"

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// table is what becomes of every method in every column.
type table map[string]map[string]palyra.Reason // method, column

// String writes a method with what it says of itself, and below it the columns by
// what becomes of them.
func (t table) String(about map[string]string) string {
	var b strings.Builder
	b.WriteString("# Who may call what: every method at every door with every credential. Made by\n" +
		"# go test ./internal/rpc -run TestMatrixFile -update; held against the design by TestMatrixHoldsTheDesign.\n")
	for _, m := range sortedKeys(t) {
		fmt.Fprintf(&b, "\n%s %s\n", m, about[m])
		by := map[string][]string{}
		for col, why := range t[m] {
			name := cmp.Or(string(why), "in")
			by[name] = append(by[name], col)
		}
		for _, why := range sortedKeys(by) {
			slices.Sort(by[why])
			fmt.Fprintf(&b, "  %s:\n    %s\n", why, strings.Join(by[why], "\n    "))
		}
	}
	return b.String()
}

// readTable reads what String wrote.
func readTable(t *testing.T, raw []byte) table {
	t.Helper()
	out := table{}
	var method, why string
	for line := range strings.Lines(string(raw)) {
		text := strings.TrimSpace(line)
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case text == "" || strings.HasPrefix(text, "#"):
		case indent == 0:
			method, _, _ = strings.Cut(text, " ")
			out[method] = map[string]palyra.Reason{}
		case indent == 2:
			if why = strings.TrimSuffix(text, ":"); why == "in" {
				why = ""
			}
		default:
			out[method][text] = palyra.Reason(why)
		}
	}
	return out
}

func (m method) about() string {
	doors := []string{}
	if people(m) {
		doors = append(doors, "people")
	}
	if agents(m) {
		doors = append(doors, "agents")
	}
	text := m.access.GetPermission() + " for " + strings.Join(doors, " and ")
	if m.access.GetSigned() {
		text += ", signed"
	}
	return text
}

// TestMatrixFile tries everything and compares with the file that is checked in.
// What was refused never reached a part.
func TestMatrixFile(t *testing.T) {
	c := newCrowded(t)
	got, about := table{}, map[string]string{}
	for _, m := range methods(t) {
		name := m.procedure()[1:]
		got[name], about[name] = map[string]palyra.Reason{}, m.about()
		for _, col := range c.columns {
			if _, twice := got[name][col.name]; twice {
				t.Fatalf("two columns are called %s", col.name)
			}
			c.parts.Seen()
			why := c.cell(col, m)
			got[name][col.name] = why
			if told := c.told.String(); col.whose != nil && strings.Contains(told, elsewhere) {
				t.Errorf("%s %s: it is told of what it does not reach: %q", name, col.name, told)
			}
			if seen := c.parts.Seen(); why != let && len(seen) > 0 && (col.whose == nil || why != palyra.ReasonNotFound) {
				t.Errorf("%s %s: refused with %s, and reached %v", name, col.name, why, seen)
			}
		}
	}
	t.Logf("%d methods in %d columns", len(got), len(c.columns))
	text := []byte(got.String(about))
	if *update {
		if err := os.WriteFile(matrixFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(want, text) {
		return
	}
	t.Errorf("%s is not what happens", matrixFile)
	for _, d := range differences(readTable(t, want), got) {
		t.Error(d)
	}
}

// differences names the cells of got that want does not have like that, and the
// other way round.
func differences(want, got table) (out []string) {
	for _, m := range sortedKeys(got) {
		if want[m] == nil {
			out = append(out, m+" is not listed")
			continue
		}
		for _, col := range sortedKeys(got[m]) {
			if w, ok := want[m][col]; !ok || w != got[m][col] {
				out = append(out, fmt.Sprintf("%s, %s: %q, listed as %q (%v)", m, col, got[m][col], w, ok))
			}
		}
	}
	for _, m := range sortedKeys(want) {
		if got[m] == nil {
			out = append(out, m+" is listed and does not exist")
		}
	}
	return out
}

// A method that came without a line, a line without a method, and a cell that
// changed are each noticed.
func TestPlantedDifferencesAreNoticed(t *testing.T) {
	raw, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	want := readTable(t, raw)
	if d := differences(want, readTable(t, raw)); len(d) != 0 {
		t.Fatal(d)
	}
	for name, plant := range map[string]func(table){
		"a new method":     func(g table) { g["palyra.v1.EvilService/Do"] = map[string]palyra.Reason{"agent/none": let} },
		"a lost method":    func(g table) { delete(g, "palyra.v1.StatusService/GetStatus") },
		"a let-in":         func(g table) { g["palyra.v1.ApprovalsService/DecideApproval"]["agent/none"] = let },
		"another reason":   func(g table) { g["palyra.v1.ApprovalsService/DecideApproval"]["agent/none"] = "x" },
		"another refusal":  func(g table) { g["palyra.v1.StatusService/GetStatus"]["operator/none"] = "x" },
		"a new credential": func(g table) { g["palyra.v1.StatusService/GetStatus"]["operator/new"] = let },
	} {
		got := readTable(t, raw)
		plant(got)
		if d := differences(want, got); len(d) != 1 {
			t.Errorf("%s: %v", name, d)
		}
	}
}
