package acp

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	sdk "github.com/coder/acp-go-sdk"

	"palyra/client"
)

// Bounds on sessions.
const (
	maxSessions = 256
	maxID       = 512 // bytes of an id that the agent made
	maxRoots    = 16
)

// session is one that the editor opened.
type talk struct {
	id    sdk.SessionId
	name  string   // of Palyra's session
	roots []string // directories; the first is where it works

	mu        sync.Mutex // guards what follows; a leaf
	turn      context.Context
	cancel    context.CancelFunc // withdraws what the session waits for
	terminals map[string]*terminal
}

// sessions are those of one connection.
type sessions struct {
	agent    string // its name, in names
	instance string

	mu      sync.Mutex // guards what follows; a leaf
	all     map[sdk.SessionId]*talk
	made    int
	opening int // requests under way that may open one
}

func newSessions(agent string) *sessions {
	return &sessions{agent: agent, instance: rand.Text()[:10], all: map[sdk.SessionId]*talk{}}
}

// rootsOf are the directories that a request opens a session with.
func rootsOf(cwd string, more []string) ([]string, error) {
	if len(more)+1 > maxRoots {
		return nil, badParams("a session has at most %d directories", maxRoots)
	}
	roots := make([]string, 0, len(more)+1)
	for _, dir := range append([]string{cwd}, more...) {
		if !filepath.IsAbs(dir) {
			return nil, badParams("the directory of a session must be absolute")
		}
		roots = append(roots, filepath.Clean(dir))
	}
	return roots, nil
}

// open notes a session. One that an agent names itself must be new: it would take over the directories of another.
func (s *sessions) open(id sdk.SessionId, roots []string, byAgent bool) error {
	if id == "" || len(id) > maxID {
		return refusal("the agent gave a session no proper id")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, there := s.all[id]
	switch {
	case there && byAgent:
		return refusal("the agent gave a new session the id of another one")
	case there:
		old.close()
	case len(s.all) >= maxSessions:
		return refusal("more than %d sessions are open", maxSessions)
	}
	s.made++
	n := &talk{
		id: id, roots: roots, terminals: map[string]*terminal{}, name: fmt.Sprintf("acp/%s/%s-%d", s.agent, s.instance, s.made),
	}
	n.turn, n.cancel = context.WithCancel(context.Background())
	s.all[id] = n
	return nil
}

// begin and end bracket a request that may open a session.
func (s *sessions) begin() { s.mu.Lock(); s.opening++; s.mu.Unlock() }
func (s *sessions) end()   { s.mu.Lock(); s.opening--; s.mu.Unlock() }

// find is the session of a request.
func (s *sessions) find(id sdk.SessionId) (*talk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.all[id]; n != nil {
		return n, nil
	}
	return nil, refusal("the editor has opened no such session")
}

// shows reports whether news of a session may go to the editor: some agents tell some before they have named it.
func (s *sessions) shows(id sdk.SessionId) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id] != nil || s.opening > 0
}

// drop ends a session.
func (s *sessions) drop(id sdk.SessionId) {
	s.mu.Lock()
	n := s.all[id]
	delete(s.all, id)
	s.mu.Unlock()
	if n != nil {
		n.close()
	}
}

// closeAll ends all, and waits for what they had running.
func (s *sessions) closeAll() {
	s.mu.Lock()
	all := s.all
	s.all = map[sdk.SessionId]*talk{}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, n := range all {
		wg.Go(n.close)
	}
	wg.Wait()
}

// now is the session's turn: it ends at once with a cancel, before anything that is within it hears of that.
func (n *talk) now() context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.turn
}

// within is a request's context that also ends with the session's turn.
func (n *talk) within(ctx context.Context) (context.Context, context.CancelFunc) {
	turn := n.now()
	ctx, done := context.WithCancel(ctx)
	stop := context.AfterFunc(turn, done)
	return ctx, func() { stop(); done() }
}

// interrupt withdraws what waits, and ends what runs; the session goes on.
func (n *talk) interrupt() {
	n.mu.Lock()
	n.cancel()
	n.turn, n.cancel = context.WithCancel(context.Background())
	running := make([]*terminal, 0, len(n.terminals))
	for _, t := range n.terminals {
		running = append(running, t)
	}
	n.mu.Unlock()
	var wg sync.WaitGroup
	for _, t := range running {
		wg.Go(t.kill)
	}
	wg.Wait()
}

func (n *talk) close() {
	n.interrupt()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cancel()
	n.terminals = map[string]*terminal{}
}

// place is the directory of the session that a path lies in, by its text, and the path itself. What the file system
// makes of it the daemon looks at: it follows no link out of a workspace.
func (n *talk) place(path string) (root, clean string, err error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", "", badParams("a path must be absolute")
	}
	clean = filepath.Clean(path)
	for _, dir := range n.roots {
		rel, err := filepath.Rel(dir, clean)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) && len(dir) > len(root) {
			root = dir
		}
	}
	if root == "" {
		return "", "", refusal("the path lies outside of the session's directories (path_outside_workspace)%s",
			remedyText("name a path inside "+n.roots[0]))
	}
	return root, clean, nil
}

// session names Palyra's session of a directory: calls in one share it.
func (n *talk) request(root string, r client.CallRequest) client.CallRequest {
	r.Workspace, r.Session = root, n.name
	for i, dir := range n.roots {
		if dir == root && i > 0 {
			r.Session = fmt.Sprintf("%s.%d", n.name, i)
		}
	}
	return r
}
