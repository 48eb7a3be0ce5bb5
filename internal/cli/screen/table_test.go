package screen

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every list fits a terminal of 80 columns, with the name of each thing whole; where no
// terminal is, nothing is left out.
func TestTablesFit(t *testing.T) {
	id, when, long := strings.Repeat("0", 26), "2026-11-16T14:35:04Z", strings.Repeat("a long text ", 20)
	for _, c := range []struct{ header, row []string }{
		{[]string{"APPROVAL", "STATE", "RISK", "ASKED BY", "SUMMARY"}, []string{id, "pending 4m58s", "critical", "agent:user.somebody", long}},
		{
			[]string{"CALL", "STATE", "TOOL", "PRINCIPAL", "PROPOSED", "SUMMARY"},
			[]string{id, "awaiting_approval", "palyra.process.run", "agent:user.root", when, long},
		},
		{[]string{"GRANT", "SCOPE", "STATE", "USES LEFT", "FOR", "COVERS"}, []string{
			id, "timeboxed", "until " + when, "12", "agent:user.root",
			long,
		}},
		{
			[]string{"RUN", "STATE", "PROVIDER", "PRINCIPAL", "CALLS", "STARTED", "ENDED", "TITLE"},
			[]string{id, "running", "script", "agent:user.root", "12", when, when, long},
		},
		{
			[]string{"SESSION", "PRINCIPAL", "SURFACE", "NAME", "CALLS", "LAST USED", "CLOSED", "WORKSPACE"},
			[]string{id, "agent:user.root", "cli", "work", "12", when, when, "/home/somebody/src/project/deep"},
		},
		{[]string{"AGENT", "OWNER", "ADDED", "REMOVED"}, []string{"agent:a-long-name-of-an-agent", "user:somebody", when, when}},
		{[]string{"PATH", "NAME", "UID", "ADDED BY", "ADDED"}, []string{
			"/home/somebody/src/project/deep", "project", "1000", "user:somebody",
			when,
		}},
		{
			[]string{"NAME", "ID", "PRINCIPAL", "ROLE", "PAIRED", "SEEN", "STATE"},
			[]string{"laptop", id, "user:somebody", "operator", when, when, "until " + when},
		},
	} {
		header, rows, widths := fitted(c.header, [][]string{c.row}, 80)
		if total(widths) > 80 || widths[0] != utf8.RuneCountInString(c.row[0]) || len(rows[0]) != len(header) || header[0] != c.header[0] {
			t.Errorf("%v: %d columns, %v of %v", c.header, total(widths), widths, header)
		}
		for i, cell := range rows[0] {
			if n := utf8.RuneCountInString(narrow(cell, widths[i])); n > widths[i] {
				t.Errorf("%q has %d characters in a column of %d", narrow(cell, widths[i]), n, widths[i])
			}
		}
		if !slices.Contains(header, "STATE") && slices.Contains(c.header, "STATE") {
			t.Errorf("%v: the state is gone: %v", c.header, header)
		}
		if h, r, w := fitted(c.header, [][]string{c.row}, 0); len(h) != len(c.header) || fmt.Sprint(r[0]) != fmt.Sprint(c.row) || w != nil {
			t.Errorf("without a terminal: %v %v %v", h, r, w)
		}
	}
}

// A table says which columns it left out, and only then.
func TestTableSaysWhatIsLeftOut(t *testing.T) {
	header := []string{"SESSION", "PRINCIPAL", "SURFACE", "NAME", "CALLS", "LAST USED", "CLOSED", "WORKSPACE"}
	when := "2026-11-16T14:35:04Z"
	rows := [][]string{{strings.Repeat("0", 26), "agent:user.root", "cli", "work", "12", when, when, "/home/somebody/src/project/deep"}}
	var narrow, wide, none strings.Builder
	tableWithin(&narrow, header, rows, 80)
	tableWithin(&wide, header, rows, 300)
	tableWithin(&none, header, rows, 0)
	if text := narrow.String(); !strings.HasSuffix(text, "\n(not wide enough for 3 columns: PRINCIPAL, SURFACE, CLOSED; --json has all)\n") {
		t.Error(text)
	}
	if strings.Contains(wide.String()+none.String(), "not wide enough") {
		t.Error(wide.String(), none.String())
	}
}
