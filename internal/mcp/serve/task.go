package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/task"
)

// errLeft ends what a task does here: nobody can ask for it any more. Its call goes on.
var errLeft = errors.New("nobody can ask for the task any more")

// job is a task: a request that goes on after its answer.
type job struct {
	id      string
	of      *mcp.ServerSession // the requestor; no other session sees the task
	created time.Time
	ttl     time.Duration
	leave   context.CancelCauseFunc

	held chan struct{} // closed when call is there
	call *client.Following
	done chan struct{} // closed when the task is final

	mu      sync.Mutex // guards the fields below
	status  task.Status
	message string
	updated time.Time
	result  *mcp.CallToolResult // valid after done, as err
	err     error
	fetched bool
	stir    chan struct{} // closed and replaced when there is news
}

func newJob(of *mcp.ServerSession, ttl time.Duration, leave context.CancelCauseFunc) *job {
	now := time.Now()
	return &job{
		id: rand.Text(), of: of, created: now, updated: now, ttl: ttl, leave: leave, status: task.Working,
		held: make(chan struct{}), done: make(chan struct{}), stir: make(chan struct{}),
	}
}

// hold notes the call that the task has become.
func (j *job) hold(c *client.Following) {
	j.call = c
	close(j.held)
}

// tell notes what the call waits for. It has the form of a teller.
func (j *job) tell(_ context.Context, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.status.Final() || j.message == text {
		return
	}
	j.message, j.updated = text, time.Now()
	j.wake()
}

// wake tells everybody who waits. The lock is held.
func (j *job) wake() {
	close(j.stir)
	j.stir = make(chan struct{})
}

// news is closed when something has changed.
func (j *job) news() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stir
}

// finish keeps what came of the request.
func (j *job) finish(r *mcp.CallToolResult, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status, j.message, j.updated = statusOf(r, err), "", time.Now()
	switch {
	case err != nil:
		j.message = palyra.AsError(err).Text
	case r.IsError:
		j.message = palyra.Clip(firstText(r), maxStatus)
	}
	if r != nil {
		r.Meta = task.Relate(r.Meta, j.id)
	}
	j.result, j.err = r, err
	j.wake()
	close(j.done)
}

// maxStatus bounds what is said of a task that failed: a client may show nothing else of it.
const maxStatus = 1000

// statusOf is the status of a task by what came of it. The protocol counts a result that is an error as failed.
func statusOf(r *mcp.CallToolResult, err error) task.Status {
	switch {
	case err != nil:
		return task.Failed
	case !r.IsError:
		return task.Completed
	}
	if s, ok := r.Meta[outcomeKey].(state); ok && s.Outcome == string(palyra.OutcomeCancelled) {
		return task.Withdrawn
	}
	return task.Failed
}

func firstText(r *mcp.CallToolResult) string {
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

// pollEvery is how long a client should wait between two looks at a task.
const pollEvery = time.Second

// shown is the task as its client sees it. While a person is asked it is working: nothing is wanted of the client,
// and those that are told otherwise wait for the result, give up after a minute, and have lost it.
func (j *job) shown() task.Task {
	j.mu.Lock()
	defer j.mu.Unlock()
	ttl := j.ttl.Milliseconds()
	return task.Task{
		ID: j.id, Status: j.status, Message: j.message, Created: task.Stamp(j.created), Updated: task.Stamp(j.updated), TTL: &ttl,
		Poll: pollEvery.Milliseconds(),
	}
}

// isOver reports whether the task is final, and whether its result was fetched.
func (j *job) isOver() (over, fetched bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status.Final(), j.fetched
}

// expired reports whether the task's time is up.
func (j *job) expired(now time.Time) bool { return now.Sub(j.created) >= j.ttl }

// Bounds of tasks.
const (
	maxWorking = 32 // of one session, under way
	maxJobs    = 64 // of one session, with those that are over
	maxTasks   = 1024
	defaultTTL = time.Hour
	minTTL     = time.Second
	maxTTL     = 24 * time.Hour
	taskPage   = 20
)

// jobs are the tasks of all sessions.
type jobs struct {
	mu      sync.Mutex
	all     []*job // in the order of their making
	stopped bool
	work    sync.WaitGroup
}

// add keeps a new task, if there is room for it; then done is to be called when it is over.
func (t *jobs) add(j *job) (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	working, kept := 0, 0
	for _, other := range t.all {
		if other.of != j.of {
			continue
		}
		kept++
		if over, _ := other.isOver(); !over {
			working++
		}
	}
	switch {
	case t.stopped:
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the server is stopping")
	case working >= maxWorking:
		return nil, tooMany("this session has %d tasks under way", working)
	case kept >= maxJobs && !t.drop(func(other *job) bool { over, fetched := other.isOver(); return other.of == j.of && over && fetched }):
		return nil, tooMany("this session has %d tasks whose results nobody has fetched", kept)
	case len(t.all) >= maxTasks:
		return nil, tooMany("the server has %d tasks", len(t.all))
	}
	t.all = append(t.all, j)
	t.work.Add(1)
	return t.work.Done, nil
}

func tooMany(format string, args ...any) error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonTooManyPending, format, args...).
		WithRemedy("fetch the results of those that are over, cancel others, or make the call without a task")
}

// drop forgets the oldest task that may be forgotten. The lock is held.
func (t *jobs) drop(may func(*job) bool) bool {
	for i, j := range t.all {
		if may(j) {
			t.all = append(t.all[:i:i], t.all[i+1:]...)
			return true
		}
	}
	return false
}

// ownedBy is the tasks of a session, the oldest first.
func (t *jobs) ownedBy(ss *mcp.ServerSession) (own []*job) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.all {
		if j.of == ss && !j.expired(now) {
			own = append(own, j)
		}
	}
	return own
}

// find is a task of a session.
func (t *jobs) find(ss *mcp.ServerSession, id string) *job {
	for _, j := range t.ownedBy(ss) {
		if j.id == id {
			return j
		}
	}
	return nil
}

// sweep lets go of tasks that nobody can ask for any more: their time is up, or their session is over.
func (t *jobs) sweep(now time.Time, live map[*mcp.ServerSession]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []*job
	for _, j := range t.all {
		if live[j.of] && !j.expired(now) {
			kept = append(kept, j)
			continue
		}
		j.leave(errLeft)
	}
	t.all = kept
}

// stop takes no more tasks, and waits until those that are there have let go of their calls.
func (t *jobs) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.work.Wait()
}
