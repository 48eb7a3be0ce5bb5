package policy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/screen"
)

// Limits of a batch.
const (
	maxWhyLine  = 1 << 20
	maxWhyLines = 1_000_000
	whyAhead    = 8 // questions under way at once
	whyTries    = 200
	whyPause    = 20 * time.Millisecond // when the daemon is busy and does not say for how long
)

// whyLine is one question of a batch.
type whyLine struct {
	Argv      []string        `json:"argv"`
	Script    *string         `json:"script"`
	Tool      palyra.ToolName `json:"tool"`
	Input     json.RawMessage `json:"input"`
	Principal string          `json:"principal"`
	Workspace string          `json:"workspace"`
	Tier      string          `json:"tier"`
}

// whyProblem is the answer to a line that could not be answered.
type whyProblem struct {
	Line  int64        `json:"line"`
	Error exit.Message `json:"error"`
}

// why explains calls.
type why interface {
	// Why explains the answer to a call.
	Why(ctx context.Context, r client.WhyRequest) (client.Explanation, error)
}

// whyBatch answers one question after the other. Several are under way at once; the answers come in
// the order of the questions.
func whyBatch(ctx context.Context, inv *invocation.Invocation, c why, o whyOptions) error {
	from, done, err := whyInput(inv, o.batch)
	if err != nil {
		return err
	}
	defer done()
	if err := settle(ctx, inv, &o); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers := make(chan chan any, whyAhead)
	var asking sync.WaitGroup
	var reading error
	asking.Go(func() {
		defer close(answers)
		reading = eachLine(from, func(n int64, line []byte, problem error) bool {
			answer := make(chan any, 1)
			select {
			case answers <- answer:
			case <-ctx.Done():
				return false
			}
			asking.Go(func() { answer <- whyOne(ctx, inv, c, o, n, line, problem) })
			return true
		})
	})
	bad, err := whyPrint(ctx, inv, answers)
	if err != nil {
		return err // the goroutine that still reads ends with the process: a read of a terminal cannot be ended
	}
	asking.Wait()
	switch {
	case reading != nil:
		return reading
	case bad:
		return exit.Error{Code: exit.Failure}
	}
	return nil
}

// whyPrint prints answers as they come; bad reports that a question had none.
func whyPrint(ctx context.Context, inv *invocation.Invocation, answers <-chan chan any) (bad bool, err error) {
	for {
		var answer chan any
		var more bool
		select {
		case answer, more = <-answers:
		case <-ctx.Done():
			return bad, ctx.Err()
		}
		if !more {
			return bad, ctx.Err()
		}
		v := <-answer
		if _, failed := v.(whyProblem); failed {
			bad = true
		}
		if err := inv.PrintJSON(v); err != nil {
			return bad, err
		}
	}
}

// whyInput opens the source of the questions.
func whyInput(inv *invocation.Invocation, name string) (io.Reader, func(), error) {
	if name == "-" {
		return inv.Stdin, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, exit.Failedf(palyra.ReasonFileNotFound, "%v", err)
	}
	return f, func() { _ = f.Close() }, nil
}

// eachLine calls f with every line and its number. A line that is too long or empty comes with a
// problem, and the rest goes on, so that every answer can be matched to its line.
func eachLine(from io.Reader, f func(n int64, line []byte, problem error) bool) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for n := int64(1); ; n++ {
		if n > maxWhyLines {
			return exit.Failedf(palyra.ReasonInputTooLarge, "a batch has at most %d lines", maxWhyLines)
		}
		line, long, err := oneLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return exit.Failedf(palyra.ReasonMalformedInput, "cannot read the batch: %v", err)
		}
		var problem error
		switch {
		case long:
			problem = exit.Failedf(palyra.ReasonInputTooLarge, "the line is longer than %s", screen.Size(maxWhyLine))
		case len(line) == 0: // after the last line
			return nil
		case len(bytes.TrimSpace(line)) == 0:
			problem = exit.Failedf(palyra.ReasonMalformedInput, "the line is empty")
		}
		if !f(n, line, problem) || err != nil {
			return nil
		}
	}
}

// oneLine reads a line, and keeps no more of it than a question may have.
func oneLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxWhyLine {
			line, long = line[:0], true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// whyOne answers one line.
func whyOne(ctx context.Context, inv *invocation.Invocation, c why, o whyOptions, n int64, line []byte, problem error) any {
	if problem == nil {
		var r client.WhyRequest
		if r, problem = o.question(line); problem == nil {
			var e client.Explanation
			if e, problem = retryBusy(ctx, c, r); problem == nil {
				v := whyOf(e, o.full)
				v.Line = n
				return v
			}
		}
	}
	return whyProblem{Line: n, Error: inv.Message(problem)}
}

// question reads one line of a batch.
func (o whyOptions) question(line []byte) (client.WhyRequest, error) {
	var q whyLine
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return client.WhyRequest{}, exit.Failedf(palyra.ReasonMalformedInput, "not a question: %v", err).
			WithRemedy(`write {"argv":["ls"]}, {"script":"ls | wc"} or {"tool":"palyra.echo","input":{}}`)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return client.WhyRequest{}, exit.Failedf(palyra.ReasonMalformedInput, "something follows the question")
	}
	forms := 0
	for _, given := range []bool{q.Argv != nil, q.Script != nil, q.Tool != ""} {
		if given {
			forms++
		}
	}
	if forms != 1 || q.Tool == "" && q.Input != nil {
		return client.WhyRequest{}, exit.Failedf(palyra.ReasonMalformedInput,
			"a question has argv, script, or tool with input, and one of them only")
	}
	return o.ask(q)
}

// ask turns a question into a request to the daemon.
func (o whyOptions) ask(q whyLine) (client.WhyRequest, error) {
	if q.Principal != "" {
		o.principal = q.Principal
	}
	if q.Workspace != "" {
		o.exec.Workspace = q.Workspace
	}
	if q.Tier != "" {
		o.exec.Tier = q.Tier
	}
	switch {
	case q.Tool != "" && len(q.Input) == 0:
		return o.questionFor(q.Tool, json.RawMessage("{}")), nil
	case q.Tool != "":
		return o.questionFor(q.Tool, q.Input), nil
	case q.Script != nil:
		line, err := proposal.ScriptText([]byte(*q.Script))
		if err != nil {
			return client.WhyRequest{}, err
		}
		return o.command(nil, line)
	case len(q.Argv) == 0 || q.Argv[0] == "":
		return client.WhyRequest{}, exit.Failedf(palyra.ReasonMalformedInput, "argv names no command")
	}
	return o.command(q.Argv, "")
}

// retryBusy asks again when the daemon answers that it is busy.
func retryBusy(ctx context.Context, c why, r client.WhyRequest) (client.Explanation, error) {
	for try := 1; ; try++ {
		e, err := c.Why(ctx, r)
		if err == nil || palyra.AsError(err).Reason != palyra.ReasonRateLimited || try == whyTries {
			return e, err
		}
		t := time.NewTimer(max(palyra.AsError(err).After, whyPause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return e, ctx.Err()
		}
	}
}
