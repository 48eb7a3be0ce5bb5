package tui

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

const plainHelp = `Questions are told as they come, each with a number.
  list            what waits
  show N          a question; full N: all of it
  answer N WORD   allow, deny, or another word that it offers; you type it once more below the question.
                  What follows deny is why, which the agent is told
  quit            leave; what waits goes on waiting
Every other line is a command of palyra: changes, undo ID, leases list, runs list, journal verify, status.`

// numbered is the questions of a plain session, each with a number that stays its own.
type numbered struct {
	mu  sync.Mutex
	all []palyra.Approval // by number, from 1 on
}

// hear notes how a question stands, and returns a line about it; empty: it is no news.
func (n *numbered) hear(p palyra.Approval) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.all, func(o palyra.Approval) bool { return o.ID == p.ID })
	switch {
	case i < 0 && p.Pending():
		n.all = append(n.all, p)
		return n.line(len(n.all) - 1)
	case i >= 0 && n.all[i].Pending() && !p.Pending():
		n.all[i] = p
		return fmt.Sprintf("%d is settled: %s%s", i+1, show.Line(question.Ending(p)), decider(p))
	case i >= 0:
		n.all[i] = p
	}
	return ""
}

// line is one question in a line.
func (n *numbered) line(i int) string {
	p := n.all[i]
	return fmt.Sprintf("%d: %s risk, %s wants: %s", i+1, show.Line(string(p.Prompt.Risk.Level)), show.Line(string(p.Principal)),
		screen.SafeLine(p.Prompt.Summary))
}

// open is all that waits, a line each.
func (n *numbered) open() (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, p := range n.all {
		if p.Pending() {
			lines = append(lines, n.line(i))
		}
	}
	return lines
}

// id is the approval with a number.
func (n *numbered) id(number string) (palyra.ApprovalID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, err := strconv.Atoi(number)
	if err != nil || i < 1 || i > len(n.all) {
		return "", exit.Usagef("there is no question %s: list has those that wait", show.Arg(number))
	}
	return n.all[i-1].ID, nil
}

// plain prints lines and reads lines, until the person leaves.
func (s *feed) plain(hear func(palyra.Approval)) error {
	ctx, end := context.WithCancel(s.ctx)
	defer s.beside.Wait()
	defer end()
	var asked numbered
	s.ctx, s.inv.NoColor = ctx, true
	fmt.Fprintln(s.inv.Stdout, "palyra: what waits for you. help says what can be typed.")
	s.beside.Go(func() {
		s.keep(func() error {
			return s.client.WatchApprovals(ctx, func(p palyra.Approval) error {
				if hear != nil {
					hear(p)
				}
				if line := asked.hear(p); line != "" {
					fmt.Fprintln(s.inv.Stdout, line)
				}
				return nil
			})
		}, func(err error) { fmt.Fprintln(s.inv.Stdout, noDaemon(show.Line(palyra.AsError(err).Text))) })
	})
	for {
		typed, err := terminal.AskLine(ctx, "")
		if err != nil {
			return err
		}
		words := strings.Fields(typed)
		switch {
		case len(words) == 0:
			continue
		case slices.Contains([]string{"quit", "exit", "q"}, words[0]):
			return nil
		}
		if err := s.obey(&asked, words); err != nil {
			s.inv.Finish(err)
		}
	}
}

// answerOf are the arguments for an answer. What follows a deny is why.
func answerOf(words []string) []string {
	if len(words) > 1 && words[0] == string(palyra.AnswerDeny) && !strings.HasPrefix(words[1], "-") {
		return []string{words[0], "--reason=" + strings.Join(words[1:], " ")}
	}
	return words
}

// obey does what a line says.
func (s *feed) obey(asked *numbered, words []string) error {
	switch words[0] {
	case "help", "?":
		fmt.Fprintln(s.inv.Stdout, plainHelp)
		return nil
	case "list":
		lines := asked.open()
		if len(lines) == 0 {
			lines = []string{"nothing waits for you"}
		}
		fmt.Fprintln(s.inv.Stdout, strings.Join(lines, "\n"))
		return nil
	case "tui":
		return exit.Usagef("this is it")
	case "show", "full", "answer":
		if len(words) < 2 {
			return exit.Usagef("%s takes the number of a question", words[0])
		}
		id, err := asked.id(words[1])
		if err != nil {
			return err
		}
		words = map[string][]string{
			"show": {"approvals", "show", string(id)}, "full": {"approvals", "show", "--full", string(id)},
			"answer": append([]string{"approvals", "decide", string(id)}, answerOf(words[2:])...),
		}[words[0]]
	}
	return s.another(s.inv)(s.ctx, s.inv.Stdout, words...)
}
