package agent

import (
	"strings"

	"palyra"
)

// Bounds of an answer.
const (
	maxAnswerText = 1 << 20
	maxAnswerArgs = 2 << 20 // of all calls
	maxAnswerName = 256
)

// Gather puts an answer together from the pieces of a stream, within bounds. The zero Gather is ready.
type Gather struct {
	text  strings.Builder
	calls []*piece
	at    map[int64]*piece // the call that a stream's index means now
	args  int
}

type piece struct {
	id, name string
	args     strings.Builder
}

// Text adds a piece of text.
func (g *Gather) Text(s string) error {
	if g.text.Len()+len(s) > maxAnswerText {
		return tooMuch("more than %d bytes of text", maxAnswerText)
	}
	g.text.WriteString(s)
	return nil
}

// Call adds a piece of a call. Pieces of one call have the same index. Some servers use one index for all their
// calls: another id, or another name, begins another call.
func (g *Gather) Call(index int64, id, name, args string) error {
	if g.at == nil {
		g.at = map[int64]*piece{}
	}
	c := g.at[index]
	if c == nil || (id != "" && c.id != "" && id != c.id) || (id == "" && name != "" && c.name != "" && c.args.Len() > 0) {
		if len(g.calls) == maxCalls {
			return tooMuch("more than %d calls", maxCalls)
		}
		c = &piece{}
		g.at[index] = c
		g.calls = append(g.calls, c)
	}
	if c.id == "" {
		c.id = palyra.Clip(id, maxAnswerName)
	}
	if c.name == "" {
		c.name = palyra.Clip(name, maxAnswerName)
	}
	if g.args += len(args); g.args > maxAnswerArgs {
		return tooMuch("more than %d bytes of arguments", maxAnswerArgs)
	}
	c.args.WriteString(args)
	return nil
}

// Answer returns the gathered answer.
func (g *Gather) Answer() Answer {
	a := Answer{Text: strings.ToValidUTF8(g.text.String(), "\uFFFD"), Stop: StopDone}
	for _, c := range g.calls {
		a.Calls = append(a.Calls, Asked{Name: strings.ToValidUTF8(c.name, "\uFFFD"), Arguments: c.args.String()})
	}
	return a
}

func tooMuch(format string, args ...any) error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonModelFailed, "the model's answer has "+format, args...).
		WithRemedy("ask for less at once, or use another model")
}
