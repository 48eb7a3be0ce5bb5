package gitwire

import (
	"context"
	"strings"

	"palyra/internal/gitobject"
)

// The bounds of what is looked at to find out what a push does.
const (
	maxCommits  = 2000
	maxBytes    = 8 << 20
	maxSubjects = 8
)

// Look finds out what updates do, from commits that a stranger brings and whose ids it checks. What it cannot find out is
// a force.
func Look(ctx context.Context, list []Update, fetch gitobject.Fetch) {
	l := &looker{ctx: ctx, fetch: fetch}
	for i := range list {
		l.look(&list[i])
	}
}

type looker struct {
	ctx     context.Context
	fetch   gitobject.Fetch
	commits int
	bytes   int
}

func (l *looker) look(u *Update) {
	switch {
	case none(u.New):
		u.How = HowDelete
	case none(u.Old):
		u.How = HowCreate
		if c, ok := l.commit(u.New); ok {
			u.Commits = []string{c.subject}
		}
	default:
		if u.How = HowForce; l.leads(u.New, u.Old) {
			u.How = HowForward
		}
		l.subjects(u)
	}
}

type commit struct {
	parents []string
	subject string
}

// commit brings a commit, and checks that it is the one that was asked for.
func (l *looker) commit(id string) (c commit, ok bool) {
	if l.commits++; l.commits > maxCommits || l.bytes > maxBytes || l.ctx.Err() != nil {
		return c, false
	}
	kind, content, err := l.fetch(l.ctx, id)
	if err != nil || kind != gitobject.KindCommit || gitobject.ID(kind, content, id) != id {
		return c, false
	}
	l.bytes += len(content)
	head, message, _ := strings.Cut(string(content), "\n\n")
	lines := strings.Split(head, "\n")
	for _, line := range lines[1:] {
		parent, is := strings.CutPrefix(line, "parent ")
		if !is || len(parent) != len(id) || !gitobject.IsID(parent) {
			break // parents stand right after the tree
		}
		c.parents = append(c.parents, parent)
	}
	c.subject, _, _ = strings.Cut(message, "\n")
	c.subject = strings.ToValidUTF8(c.subject[:min(len(c.subject), 256)], "\uFFFD")
	return c, true
}

// leads reports whether a commit certainly has another one among its ancestors.
func (l *looker) leads(from, to string) bool {
	seen, next := map[string]bool{from: true}, []string{from}
	for len(next) > 0 {
		c, ok := l.commit(next[0])
		next = next[1:]
		if !ok && len(next) == 0 || l.commits > maxCommits {
			return false
		}
		for _, p := range c.parents {
			if p == to {
				return true
			}
			if !seen[p] {
				seen[p] = true
				next = append(next, p)
			}
		}
	}
	return false
}

// subjects lists the commits that come in, along first parents.
func (l *looker) subjects(u *Update) {
	for id := u.New; id != u.Old; {
		c, ok := l.commit(id)
		if !ok {
			return
		}
		if len(u.Commits) < maxSubjects {
			u.Commits = append(u.Commits, c.subject)
		} else {
			u.More++
		}
		if len(c.parents) == 0 {
			return
		}
		id = c.parents[0]
	}
}
