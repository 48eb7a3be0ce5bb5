package tui

import (
	"strconv"
	"strings"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/tui/opening"
	"palyra/internal/show"
)

// columns are the names of the cells of a row, and the widths of all but the last one.
var columns = [sections]struct {
	names  []string
	widths []int
}{
	inbox:   {opening.Cells, opening.Widths},
	runs:    {[]string{"STATE", "STARTED", "PROVIDER", "RUN"}, []int{12, 20, 16}},
	changed: {[]string{"STATE", "AT", "PATHS", "WHAT"}, []int{7, 20, 6}},
	leases:  {[]string{"SCOPE", "LEFT", "FOR", "COVERS"}, []int{10, 8, 16}},
	journal: {[]string{"ENTRY", "TIME", "KIND"}, []int{8, 20}},
	status:  {[]string{"WHAT"}, nil},
}

func rowsOfInbox(all []palyra.Approval, now time.Time) []row {
	out := make([]row, len(all))
	for i, p := range all {
		out[i] = row{id: string(p.ID), alarm: p.Prompt.Risk.Level.Rank() >= palyra.RiskHigh.Rank(), cells: []string{
			show.Line(strings.ToUpper(string(p.Prompt.Risk.Level))), screen.Left(p.ExpiresAt, now), show.Line(string(p.Principal)),
			screen.SafeLine(p.Prompt.Summary),
		}}
	}
	return out
}

func rowsOfRuns(all []palyra.Run) []row {
	out := make([]row, len(all))
	for i, r := range all {
		title := r.Title
		if title == "" {
			title = string(r.ID)
		}
		out[i] = row{id: string(r.ID), open: []string{"runs", "attach", string(r.ID)}, cells: []string{
			show.Line(string(r.State)), screen.Stamp(r.CreatedAt), show.Line(r.Provider), screen.SafeLine(title),
		}}
	}
	return out
}

func rowsOfChanges(all []client.UndoEntry) []row {
	out := make([]row, len(all))
	for i, e := range all {
		out[i] = row{id: string(e.Call), open: []string{"changes", string(e.Call)}, cells: []string{
			show.Line(string(e.State)), screen.Stamp(e.At), strconv.FormatInt(e.Paths, 10), screen.SafeLine(e.Summary),
		}}
	}
	return out
}

func rowsOfLeases(all []palyra.Lease, now time.Time) []row {
	out := make([]row, len(all))
	for i, l := range all {
		left := "session"
		if !l.ExpiresAt.IsZero() {
			left = screen.Left(l.ExpiresAt, now)
		}
		out[i] = row{id: string(l.ID), open: []string{"leases", "show", string(l.ID)}, cells: []string{
			show.Line(string(l.Scope)), left, show.Line(string(l.Terms.Principal)), show.Line(question.Covers(l.Terms)),
		}}
	}
	return out
}

func rowsOfJournal(all []palyra.Entry) []row {
	out := make([]row, len(all))
	for i, e := range all {
		n := strconv.FormatInt(e.Seq, 10)
		out[i] = row{id: n, cells: []string{
			n, screen.Second(show.Line(e.Time)), show.Line(e.Kind) + "  " + show.Line(string(e.Call)),
		}}
	}
	return out
}

// rowsOfStatus are the commands that say how things stand.
func rowsOfStatus() []row {
	out := []row{}
	for _, r := range []struct{ words, says string }{
		{"status", "the daemon, and what is degraded"},
		{"sandbox posture", "what holds programs on this machine"},
		{"approvals list", "questions, the last ones, and how they ended"},
		{"calls list", "the last calls"},
		{"sessions list", "sessions that are open"},
		{"processes list", "programs that run in the background"},
		{"workspace list", "directories that agents may work in"},
		{"observe status", "whether hooks only observe"},
		{"journal verify", "the whole journal, checked now"},
		{"vault status", "where secrets are kept"},
		{"device list", "devices that may decide"},
		{"access user list", "users and their roles"},
		{"policy show", "the rules in force"},
	} {
		out = append(out, row{id: r.words, open: strings.Fields(r.words), cells: []string{r.words + ": " + r.says}})
	}
	return out
}
