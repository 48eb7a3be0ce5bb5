package question

import "slices"

// In a pane of the terminal UI a question has the lines of the pane. What it does comes first, and is the last that goes; the
// keys of the UI stand where the commands would. In a pane of less than twelve lines it is scrolled, and begins with what is
// grave.

// effectLabels are the parts that say what a call does, which may have half of a pane each.
var effectLabels = []string{"Diff", "Command", "Arguments", "Argument", keepLabel}

// low reports whether a pane has too few lines for a question.
func (v *View) low() bool { return v.Pane > 0 && v.Pane < mostLines }

// byKey is a command's words or, in the terminal UI, those of its key.
func (v *View) byKey(command, key string) string {
	if v.Pane > 0 {
		return key
	}
	return command
}

// more says which key shows the rest of a part.
func (v *View) more(label string) string {
	switch {
	case v.Pane == 0:
		return ""
	case label == "Diff":
		return "; d: all of it"
	}
	return "; f: all of it"
}

// effectFirst prints the question of a pane.
func (v *View) effectFirst() {
	v.head()
	v.summary()
	v.diff()
	v.effects()
	v.printTool()
	v.process()
	v.reach()
	v.printRequester()
	v.why()
	v.details()
	v.grounds()
	v.votes()
	v.answers()
}

// graveFirst puts the risk, the warnings and the answers before the rest, each as short as it may be.
func (v *View) graveFirst(parts []part) []part {
	parts = merged(folded(parts), answerWith, func(p part) bool { return p.label == answerWith })
	var first, rest []part
	for _, label := range []string{"NOT SHOWN", warning, riskLabel, answerWith} {
		for _, p := range parts {
			if p.label == label {
				first = append(first, v.within(p, v.needed(p)))
			}
		}
	}
	for _, p := range parts {
		if !slices.Contains([]string{"NOT SHOWN", warning, riskLabel, answerWith}, p.label) {
			rest = append(rest, p)
		}
	}
	return append(first, rest...)
}

// Difference prints the whole diff of a call, or that there is none; it reports whether it is of changes that the daemon
// holds, and printed nothing then.
func (v *View) Difference() (held bool) {
	a := v.Approval
	switch {
	case a.Plan.Effects != nil:
		return true
	case a.Prompt.Diff == "":
		v.aside("There is no diff: what this does to files is not known before it has run, or it changes none. f: all of the plan")
		return false
	}
	if unshown(a) {
		v.shout("NOT SHOWN", "the diff does not show all that it would write; "+v.showAllHint()+" does", contentUnseen)
	}
	v.diff()
	return false
}
