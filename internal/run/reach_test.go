package run

import (
	"slices"
	"strings"
	"testing"

	"palyra"
)

// fedLines are the lines of the journal about what a call was given, and whether they
// stand before its end.
func (w *world) fedLines(call palyra.CallID) (all []palyra.CallFed, before bool) {
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	before = true
	over := false
	for _, e := range w.tape.events {
		switch e := e.(type) {
		case palyra.CallFed:
			if e.Call == call {
				all, before = append(all, e), before && !over
			}
		case palyra.CallFinished:
			over = over || e.Call == call
		}
	}
	return all, before
}

// Whatever a call is given has lines: together they have all of it, the last with the
// digest of the whole, and they stand before the end.
func TestInputHasLines(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"feed":true}`))
	id := <-w.parts.started
	by := palyra.Reach{Principal: "agent:test", Room: "R", Credential: "room:R"}
	long := strings.Repeat("0123456789", maxFeed/4)
	for _, x := range []palyra.Feed{{Data: []byte("in, ")}, {Rows: 2, Cols: 3}, {Signal: "SIGHUP"}, {Data: []byte(long)}, {End: true}} {
		if err := w.calls.Send(t.Context(), id, by, x); err != nil {
			t.Fatal(err)
		}
	}
	if r := <-ch; r.err != nil {
		t.Fatal(r.err)
	}
	lines, before := w.fedLines(id)
	var bytes, count int64
	var signals []string
	ended := false
	for _, l := range lines {
		bytes, count, signals, ended = bytes+l.Bytes, count+l.Count, append(signals, l.Signals...), ended || l.Ended
		if l.By != "agent:test" || l.Room != "R" || l.Credential != "room:R" {
			t.Errorf("%+v", l)
		}
	}
	if !before || len(lines) == 0 || bytes != int64(4+len(long)) || count != 4 || !ended || !slices.Equal(signals, []string{"SIGHUP"}) {
		t.Fatalf("before the end %v: %+v", before, lines)
	}
	if last := lines[len(lines)-1]; last.Digest != palyra.SumBytes([]byte("in, "+long)) {
		t.Errorf("%+v", last)
	}
}

// The first input, and the first of another giver, has its line before the call gets
// it, in the giver's own name: also when the daemon dies the moment after.
func TestInputHasItsLineFirst(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"feed":true}`))
	id := <-w.parts.started
	ann, bob := palyra.Reach{Principal: "agent:ann", Credential: "a"}, palyra.Reach{Principal: "agent:bob", Credential: "b"}
	want := []palyra.Principal{}
	for _, by := range []palyra.Reach{ann, bob, ann} {
		if err := w.calls.Send(t.Context(), id, by, palyra.Feed{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		want = append(want, by.Principal)
		lines, _ := w.fedLines(id)
		var got []palyra.Principal
		for _, l := range lines {
			if got = append(got, l.By); l.Bytes != 1 || l.Count != 1 {
				t.Errorf("%+v", l)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("lines by %v, input by %v", got, want)
		}
	}
	if err := w.calls.Send(t.Context(), id, ann, palyra.Feed{End: true}); err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.err != nil {
		t.Fatal(r.err)
	}
	if lines, before := w.fedLines(id); !before || len(lines) != 4 || !lines[3].Ended {
		t.Errorf("%v: %+v", before, lines)
	}
}

// inRoom is a proposal by the door of a room that the given call is.
func (w *world) inRoom(room palyra.CallID, args string) palyra.Proposal {
	p := w.proposal(args)
	p.Session, p.Parent, p.Room, p.Line, p.Origin, p.Credential = "", room, room, []palyra.CallID{room}, "agent:user.ann", "room:"+string(room)
	return p
}

// Lists have what their reader reaches: a room what came out of it, at any depth, and
// whoever started it all of that; nobody of the same name anything.
func TestListsByLineage(t *testing.T) {
	w := newWorld(t)
	do := func(p palyra.Proposal) palyra.CallID {
		t.Helper()
		out, err := w.calls.Call(t.Context(), p, palyra.Watch{})
		if err != nil {
			t.Fatal(err)
		}
		return out.CallID
	}
	start := w.proposal(`{}`)
	start.Principal = "agent:user.ann"
	room := do(start)
	inside := do(w.inRoom(room, `{}`))
	deep := w.inRoom(inside, `{}`)
	deep.Line = []palyra.CallID{room, inside}
	below := do(deep)
	beside := do(w.proposal(`{}`))
	for name, c := range map[string]struct {
		by   palyra.Reach
		want []palyra.CallID
	}{
		"operator":     {operator, []palyra.CallID{beside, below, inside, room}},
		"who began it": {palyra.Reach{Principal: "agent:user.ann"}, []palyra.CallID{below, inside, room}},
		"the room":     {palyra.Reach{Principal: "agent:test", Room: room}, []palyra.CallID{below, inside}},
		"one within":   {palyra.Reach{Principal: "agent:test", Room: inside}, []palyra.CallID{below}},
		"its namesake": {palyra.Reach{Principal: "agent:test"}, []palyra.CallID{beside}},
		"another room": {palyra.Reach{Principal: "agent:test", Room: beside}, nil},
		"bound":        {palyra.Reach{Principal: "agent:test", Within: []string{"/elsewhere"}}, nil},
		"nobody":       {palyra.Reach{}, nil},
	} {
		var got []palyra.CallID
		for f := (palyra.CallFilter{Reach: c.by, Limit: 1}); ; {
			page, next, err := w.calls.List(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range page {
				got = append(got, call.ID)
			}
			if next == "" {
				break
			}
			f.Cursor = string(next)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A session is its own room's, and its own bounds', by name and by id; it ends with
// the room.
func TestSessionsAreTheirRooms(t *testing.T) {
	w := newWorld(t)
	resolve := func(p palyra.Proposal) palyra.Session {
		t.Helper()
		s, err := w.sessions.Resolve(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain := w.proposal(`{}`)
	bound := plain
	bound.Within = []string{"/b", "/a"}
	same := plain
	same.Within = []string{"/a", "/b"}
	one, two := w.inRoom("01ROOM", `{}`), w.inRoom("01OTHER", `{}`)
	ids := map[palyra.SessionID]bool{}
	for _, p := range []palyra.Proposal{plain, bound, one, two} {
		p.Session = "same name"
		ids[resolve(p).ID] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d sessions", len(ids))
	}
	if a, b := resolve(bound), resolve(same); a.ID != b.ID {
		t.Error("the same bounds in another order are others")
	}
	mine := resolve(one)
	for name, p := range map[string]palyra.Proposal{"outside": plain, "bound": bound, "another room": two} {
		p.Session = mine.ID
		if _, err := w.sessions.Resolve(t.Context(), p); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%s joins: %v", name, err)
		}
	}
	w.calls.endChildren(&palyra.Call{ID: "01ROOM", Plan: palyra.Plan{AgentSocket: true}})
	if s, err := w.sessions.Get(t.Context(), mine.ID); err != nil || s.ClosedAt.IsZero() {
		t.Errorf("%+v %v", s, err)
	}
	if s := resolve(two); !s.ClosedAt.IsZero() {
		t.Error("another room's session ended")
	}
}

// A room that uses up its share leaves everybody else's alone, and rooms in it have
// no share of their own.
func TestARoomHasAShareOfItsOwn(t *testing.T) {
	w := newWorld(t)
	p := w.inRoom("01ROOM", `{}`)
	deep := p
	deep.Room, deep.Line = "01DEEP", []palyra.CallID{"01ROOM", "01DEEP"}
	w.calls.mu.Lock()
	defer w.calls.mu.Unlock()
	w.calls.held[p.Payer()] = holding{calls: maxEach}
	for name, c := range map[string]struct {
		p  palyra.Proposal
		ok bool
	}{
		"the room": {p, false}, "a room in it": {deep, false}, "its namesake": {w.proposal(`{}`), true},
		"another room": {w.inRoom("01OTHER", `{}`), true},
	} {
		if err := w.calls.admissible(c.p); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
