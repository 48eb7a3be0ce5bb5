package serve

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/mcp/task"
)

// addTasks has requests for tools answered as tasks, where the client wants it.
func (s *Server) addTasks() error {
	s.mcp.AddReceivingMiddleware(s.tasking)
	return errors.Join(
		mcp.AddReceivingCustomMethod(s.mcp, task.MethodGet, s.getTask),
		mcp.AddReceivingCustomMethod(s.mcp, task.MethodResult, s.taskResult),
		mcp.AddReceivingCustomMethod(s.mcp, task.MethodList, s.listTasks),
		mcp.AddReceivingCustomMethod(s.mcp, task.MethodCancel, s.cancelTask),
	)
}

// tasking changes what the library answers where tasks have a part in it.
func (s *Server) tasking(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.CallToolRequest:
			if r.Params != nil {
				return s.maybeTask(ctx, r, next)
			}
		case *mcp.ServerRequest[*task.Ref]:
			if !hasTasks(r.Session, metaOf(r.Params)) {
				return nil, noMethod(method)
			}
		case *mcp.ServerRequest[*task.Page]:
			if !hasTasks(r.Session, metaOf(r.Params)) {
				return nil, noMethod(method)
			}
		}
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		switch r := res.(type) {
		case *mcp.InitializeResult:
			return task.Offer(r)
		case *mcp.ListToolsResult:
			if q, ok := req.(*mcp.ServerRequest[*mcp.ListToolsParams]); ok && hasTasks(q.Session, metaOf(q.Params)) {
				return task.Mark(r, s.isOfCatalog)
			}
		}
		return res, nil
	}
}

// versionKey stands in the _meta of every request of a revision without sessions, and of no other.
const versionKey = "io.modelcontextprotocol/protocolVersion"

// hasTasks reports whether a request is one of the revision that has tasks, in a session.
func hasTasks(ss *mcp.ServerSession, meta map[string]any) bool {
	p := ss.InitializeParams()
	_, stateless := meta[versionKey]
	return p != nil && p.ProtocolVersion >= task.Revision && !stateless
}

// metaOf is the _meta of parameters, which a request may leave out as a whole.
func metaOf[T any, P interface {
	*T
	mcp.Params
}](params P) map[string]any {
	if params == nil {
		return nil
	}
	return params.GetMeta()
}

// isOfCatalog reports whether a tool is the daemon's. This server's own do not wait for people.
func (s *Server) isOfCatalog(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[name] != ""
}

// jobKey finds the task that a request is made for.
type jobKey struct{}

func jobOf(ctx context.Context) *job {
	j, _ := ctx.Value(jobKey{}).(*job)
	return j
}

const underWay = "The call goes on as a task. Its result comes later; do not repeat the call."

// maybeTask answers a request for a tool with a task, if it asks for one.
func (s *Server) maybeTask(ctx context.Context, r *mcp.CallToolRequest, next mcp.MethodHandler) (mcp.Result, error) {
	wish, err := task.Wished(r.Params.Meta)
	switch {
	case !hasTasks(r.Session, r.Params.Meta) || wish == nil && err == nil:
		return next(ctx, task.MethodCall, r)
	case err != nil:
		return nil, badTask("%s", err.Error())
	case !s.isOfCatalog(r.Params.Name):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "there is no such tool that can be called as a task"}
	}
	on, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	j := newJob(r.Session, ttlOf(wish), leave)
	done, err := s.jobs.add(j)
	if err != nil {
		leave(err)
		return nil, refusal(err)
	}
	go func() {
		defer done()
		defer leave(nil)
		res, err := next(context.WithValue(on, jobKey{}, j), task.MethodCall, r)
		got, _ := res.(*mcp.CallToolResult)
		if got == nil && err == nil {
			err = errors.New("the call has no result")
		}
		j.finish(got, err)
	}()
	out := &task.Created{Task: j.shown()}
	out.Meta = task.Meanwhile(underWay)
	return out, nil
}

// ttlOf is how long a task is kept: as the client wishes, within bounds.
func ttlOf(w *task.Wish) time.Duration {
	if w.TTL == nil {
		return defaultTTL
	}
	return max(minTTL, time.Duration(min(*w.TTL, maxTTL.Milliseconds()))*time.Millisecond)
}

func badTask(format string, args ...any) error {
	return refusal(palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...))
}

// refusal is an error as clients get it for a request that has no result to put it into.
func refusal(err error) error {
	e := palyra.AsError(err)
	code := map[palyra.Code]int64{palyra.Invalid: jsonrpc.CodeInvalidParams, palyra.NotFound: jsonrpc.CodeInvalidParams}[e.Code]
	if code == 0 {
		code = jsonrpc.CodeInternalError
	}
	data, _ := json.Marshal(map[string]any{"reason_code": e.Reason, "remedy": e.Remedy})
	return &jsonrpc.Error{Code: code, Message: e.Text, Data: data}
}

func noMethod(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " belongs to sessions of revision " + task.Revision}
}

// task finds a session's own task. One of another session is not there.
func (s *Server) task(ss *mcp.ServerSession, ref *task.Ref) (*job, error) {
	if ref != nil {
		if j := s.jobs.find(ss, ref.ID); j != nil {
			return j, nil
		}
	}
	return nil, refusal(palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "this session has no such task").
		WithRemedy("its time may be up; find its call with %s", waitTool))
}

func (s *Server) getTask(_ context.Context, ss *mcp.ServerSession, ref *task.Ref) (*task.Shown, error) {
	j, err := s.task(ss, ref)
	if err != nil {
		return nil, err
	}
	return &task.Shown{Task: j.shown()}, nil
}

func (s *Server) listTasks(_ context.Context, ss *mcp.ServerSession, p *task.Page) (*task.Listed, error) {
	own, from := s.jobs.ownedBy(ss), 0
	if p != nil && p.Cursor != "" {
		for i, j := range own {
			if j.id == p.Cursor {
				from = i + 1
			}
		}
		if from == 0 {
			return nil, badTask("there is no such page of tasks")
		}
	}
	out := &task.Listed{Tasks: []task.Task{}}
	for _, j := range own[from:min(from+taskPage, len(own))] {
		out.Tasks = append(out.Tasks, j.shown())
		out.Next = j.id
	}
	if from+taskPage >= len(own) {
		out.Next = ""
	}
	return out, nil
}

// taskResult waits for the end of a task and answers as the request itself would have been. Meanwhile the question
// is shown in the client, as a view. A client that gives up leaves the task as it is.
func (s *Server) taskResult(ctx context.Context, ss *mcp.ServerSession, ref *task.Ref) (*mcp.CallToolResult, error) {
	j, err := s.task(ss, ref)
	if err != nil {
		return nil, err
	}
	view, unview := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer unview()
	w := s.windowOf(ss, j.id)
	for {
		news := j.news()
		select {
		case <-j.held:
			w.follow(view, &wg, s.unseen, j.call.Progress().Question)
		default:
		}
		select {
		case <-j.done:
			return j.fetch()
		case <-news:
		case <-s.stopping:
			return nil, refusal(palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the server is stopping"))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetch is what came of a task that is over.
func (j *job) fetch() (*mcp.CallToolResult, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fetched = true
	return j.result, j.err
}

// cancelPatience is how long a client waits until its cancel is certain.
const cancelPatience = 5 * time.Second

// cancelTask withdraws the call of a task, and with it its question. It says so only when it is so.
func (s *Server) cancelTask(ctx context.Context, ss *mcp.ServerSession, ref *task.Ref) (*task.Shown, error) {
	j, err := s.task(ss, ref)
	if err != nil {
		return nil, err
	}
	if over, _ := j.isOver(); over {
		return nil, badTask("the task is over: it is %s", j.shown().Status)
	}
	ctx, enough := context.WithTimeout(ctx, cancelPatience)
	defer enough()
	if err := s.withdraw(ctx, j); err != nil {
		return nil, refusal(err)
	}
	if shown := j.shown(); shown.Status != task.Withdrawn {
		return nil, badTask("the task was over before: it is %s", shown.Status)
	}
	return &task.Shown{Task: j.shown()}, nil
}

// withdraw cancels a task's call and waits until it is over.
func (s *Server) withdraw(ctx context.Context, j *job) error {
	late := palyra.Errorf(palyra.Unavailable, palyra.ReasonTimedOut, "Palyra's daemon does not answer; the call may go on").
		WithRemedy("cancel again")
	select {
	case <-j.held:
	case <-j.done:
		return nil
	case <-ctx.Done():
		return late
	}
	select {
	case <-j.call.Known():
	case <-j.done:
		return nil
	case <-ctx.Done():
		return late
	}
	if err := s.Backend.CancelCall(ctx, j.call.ID()); err != nil && palyra.CodeOf(err) != palyra.Conflict {
		s.Log.Warn("cannot cancel a call", "call_id", j.call.ID(), "reason", palyra.AsError(err).Reason)
		return late
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return late
	}
}

// sweepTasks lets go of tasks of sessions that are over.
func (s *Server) sweepTasks() {
	live := map[*mcp.ServerSession]bool{}
	for ss := range s.mcp.Sessions() {
		live[ss] = true
	}
	s.jobs.sweep(time.Now(), live)
}
