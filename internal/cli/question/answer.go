package question

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/show"
)

// wideAnswer is an answer that reaches further than the one call, with a word of its own.
type wideAnswer struct{ word, widen string }

// wideAnswers lists all of them. Each is one of the generalisations that a question offers, for a time.
var wideAnswers = []wideAnswer{
	{"allow-edits", palyra.WidenWorkspace},
	{"allow-reads", palyra.WidenReadRoot},
	{"allow-host", palyra.WidenHost},
	{"allow-group", palyra.WidenGroup},
	{"allow-commits", palyra.WidenBranch},
	{"allow-remote", palyra.WidenRemote},
	{"allow-pushes", palyra.WidenPush},
}

// is reports whether the answer is a generalisation, which may name further what it is of.
func (w wideAnswer) is(widen string) bool {
	return widen == w.widen || strings.HasPrefix(widen, w.widen+":")
}

// wideTime is how long a wide answer holds by default. But for that of a group of hosts it ends with its session at the
// latest.
const wideTime = 8 * time.Hour

// Widely turns the word of a wide answer into the request that it stands for; other requests stay unchanged.
func Widely(r client.DecideRequest) (client.DecideRequest, error) {
	i := slices.IndexFunc(wideAnswers, func(w wideAnswer) bool { return w.word == string(r.Answer) })
	if i < 0 {
		return r, nil
	}
	if r.Widen != "" || r.Scope == palyra.ScopeOnce {
		return r, fmt.Errorf("%s goes further than once already and takes no --widen", wideAnswers[i].word)
	}
	r.Answer, r.Widen = palyra.AnswerAllow, wideAnswers[i].widen
	r.Scope = cmp.Or(r.Scope, palyra.ScopeTimeboxed)
	if r.Scope == palyra.ScopeTimeboxed && r.TTL == 0 {
		r.TTL = wideTime
	}
	return r, nil
}

// WideAnswer is an answer that a question offers beside that for this call: the word that a person types, what it covers,
// and how many of the last questions it would have saved.
type WideAnswer struct {
	Word   string `json:"answer"`
	Covers string `json:"covers"`
	Saves  int64  `json:"saves"`
	Of     string `json:"of,omitempty"` // the group of hosts that it is for
}

// Wide returns the wide answers of a question, in the order in which it offers them.
func Wide(a palyra.Approval) (list []WideAnswer) {
	for _, o := range a.Prompt.Options {
		i := slices.IndexFunc(wideAnswers, func(w wideAnswer) bool { return w.is(o.Name) })
		if i >= 0 && !a.Need.Fresh {
			w := WideAnswer{Word: wideAnswers[i].word, Covers: o.Label, Saves: o.Saves}
			if parts := strings.Split(o.Name, ":"); len(parts) > 1 {
				w.Of = parts[1]
			}
			list = append(list, w)
		}
	}
	return list
}

// Offered returns the words of the wide answers of a question.
func Offered(a palyra.Approval) (words []string) {
	for _, w := range Wide(a) {
		words = append(words, w.Word)
	}
	return words
}

// does says what the answer does; brief is that where there is no room.
func (w WideAnswer) does() (text, brief string) {
	text, brief = w.Word+": "+show.Line(w.Covers)+", for 8h", w.Word
	if w.Saves > 0 {
		text += fmt.Sprintf("; would have saved %d questions lately", w.Saves)
	}
	if w.Of != "" {
		brief += ": " + pinched(show.Line(w.Of), briefValue) + ", this workspace, 8h"
	}
	return text, brief
}

// CheckOffered refuses a wide answer that a question does not offer, and names those that it does.
func CheckOffered(a palyra.Approval, r client.DecideRequest) error {
	word := Word(r)
	words := Offered(a)
	if word == string(r.Answer) || slices.Contains(words, word) {
		return nil
	}
	can := strings.Join(slices.Concat([]string{"allow"}, words, []string{"deny"}), ", ")
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s is not offered here; nothing was decided", word).
		WithRemedy("answer one of: %s", can)
}

// Named names the generalisation of an answer as the question offers it: that of a group says which group, and what is in
// it.
func Named(a palyra.Approval, r client.DecideRequest) client.DecideRequest {
	for _, o := range a.Prompt.Options {
		if r.Widen != "" && strings.HasPrefix(o.Name, r.Widen+":") {
			r.Widen = o.Name
		}
	}
	return r
}

// Word is the word that a person types for an answer.
func Word(r client.DecideRequest) string {
	for _, w := range wideAnswers {
		if r.Answer == palyra.AnswerAllow && w.is(r.Widen) {
			return w.word
		}
	}
	return string(r.Answer)
}

// answers prints the possible answers, each with its effect.
func (v *View) answers() {
	a := v.Approval
	wide, words := Wide(a), Offered(a)
	if !a.Pending() || v.Once && len(words) == 0 { // the question itself names both
		return
	}
	if a.Plan.Effects != nil {
		v.answer(answerWith, "allow", "keep these and no others; 'palyra undo' takes back what is kept for it")
		v.answer("", "deny", "drop them; none is in the workspace ("+v.byKey("--full", "f")+": the rest)")
		return
	}
	label := answerWith
	if !v.Once { // else the line that takes the answer says it
		once := "this call, once (" + v.byKey("--scope session: the same again, unasked", "Tab: for longer, the same unasked") + ")"
		if a.Need.Fresh || unshown(a) {
			once = "this call, once; it is asked about every time"
		}
		v.answer(label, "allow", once)
		label = ""
	}
	for _, w := range wide {
		text, brief := w.does()
		v.emit(part{label: label, texts: []string{text}, briefs: []string{brief}})
		label = ""
	}
	if len(words) > 0 {
		v.aside(exceptions(words))
	}
	if !v.Once {
		v.answer("", "deny", "not at all; the same is not asked again for a while")
	}
}

// answer prints the word of an answer and what it does; where there is no room, the word.
func (v *View) answer(label, word, does string) {
	v.emit(part{label: label, texts: []string{word + ": " + does}, briefs: []string{word}})
}

// exceptions says what the wide answers leave out.
func exceptions(words []string) string {
	switch {
	case slices.Contains(words, "allow-group"):
		return "still asked: other hosts, other workspaces, secrets, what asks offline"
	case slices.Contains(words, "allow-host"):
		return "still asked: sending, headers, other hosts, after a secret was used"
	case slices.Contains(words, "allow-reads"):
		return "still asked: hidden names, secrets, other directories, more risk"
	case slices.Contains(words, "allow-commits"):
		return "still asked: tags, other branches, other keys"
	case slices.Contains(words, "allow-remote"):
		return "still asked: pushes, other repositories, other keys"
	case slices.Contains(words, "allow-pushes"):
		return "still asked: force, deletions, tags, other branches and repositories"
	}
	return "still asked: hidden names (.envrc), outside, removals, more risk"
}
