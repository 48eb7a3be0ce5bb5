package agent

import (
	"slices"
	"strconv"
	"strings"

	"palyra"
)

// Texts that stand in for parts that were left out.
const (
	leftOut    = "[left out to save room; call the tool again if you need it]"
	turnsOut   = "[Earlier turns of this conversation were left out to save room.]"
	neverTold  = `{"outcome":"unknown","reason":"the run ended before the result was told; look before you try again"}`
	emptyHeard = "[nothing]"
)

// wishID names a call in a conversation. Some servers take no more than 40 characters.
func wishID(run palyra.RunID, turn int64, index int) string {
	s := string(run)
	return "c" + s[max(0, len(s)-12):] + "_" + strconv.FormatInt(turn, 10) + "_" + strconv.Itoa(index)
}

// sound makes exchanges into a conversation that every server takes: each call
// has its result in the next exchange and each result its call.
func sound(talk []Exchange) []Exchange {
	out := make([]Exchange, 0, len(talk))
	var open []Wish
	for i, x := range talk {
		results := make([]Result, 0, len(open))
		for _, w := range open {
			r := Result{ID: w.ID, Text: neverTold, Failed: true}
			if at := slices.IndexFunc(x.Heard.Results, func(r Result) bool { return r.ID == w.ID }); at >= 0 {
				r = x.Heard.Results[at]
			}
			results = append(results, r)
		}
		x.Heard.Results = results
		if len(results)+len(x.Heard.Texts) == 0 {
			x.Heard.Texts = []string{emptyHeard}
		}
		if x.Said.Text == "" && len(x.Said.Calls) == 0 && i < len(talk)-1 {
			x.Said.Text = emptyHeard
		}
		open = x.Said.Calls
		out = append(out, x)
	}
	return out
}

// fit makes a conversation no longer than so many bytes, as far as that can be done: first the oldest results are
// left out, then the oldest exchanges. What the model hears now stays whole, and so does the prompt, which was
// heard in exchange number first.
func fit(talk []Exchange, first, most int) []Exchange {
	size := 0
	for _, x := range talk {
		size += x.size()
	}
	if size <= most || len(talk) == 0 {
		return talk
	}
	talk = slices.Clone(talk)
	last := len(talk) - 1
	for i := 0; i < last && size > most; i++ {
		talk[i].Heard.Results = slices.Clone(talk[i].Heard.Results)
		for j, r := range talk[i].Heard.Results {
			if size > most && len(r.Text) > len(leftOut) {
				size -= len(r.Text) - len(leftOut)
				talk[i].Heard.Results[j].Text = leftOut
			}
		}
	}
	prompt := talk[min(first, last)].Heard.Texts
	dropped := 0
	for dropped < last && size > most {
		size -= talk[dropped].size()
		dropped++
	}
	if dropped == 0 {
		return talk
	}
	talk = talk[dropped:]
	texts := []string{turnsOut}
	if dropped > first {
		texts = append(texts, prompt...)
	}
	talk[0].Heard = Heard{Results: talk[0].Heard.Results, Texts: append(texts, talk[0].Heard.Texts...)}
	if len(talk) == 1 { // the new messages are told all the same
		talk[0].Heard = inWords(talk[0].Heard)
	}
	talk[0].Heard.Results = nil // their calls are gone
	return talk
}

// inWords tells results whose calls are no longer there.
func inWords(h Heard) Heard {
	for _, r := range h.Results {
		h.Texts = append(h.Texts, "Result of an earlier call: "+r.Text)
	}
	h.Results = nil
	return h
}

// size is about how many bytes an exchange takes up.
func (x Exchange) size() int {
	n := 64 + len(x.Said.Text)
	for _, t := range x.Heard.Texts {
		n += len(t) + 16
	}
	for _, r := range x.Heard.Results {
		n += len(r.Text) + len(r.ID) + 32
	}
	for _, w := range x.Said.Calls {
		n += len(w.Arguments) + len(w.Name) + len(w.ID) + 32
	}
	return n
}

// titleOf is the first line of a prompt.
func titleOf(prompt string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line)
	return palyra.Clip(strings.TrimSpace(line), 80)
}
