package past

import (
	"encoding/json"
	"errors"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/run"
)

// told is what a row tells of a call, as far as it is looked at.
type told struct {
	digest   palyra.Digest // of the plan, as the row has it
	refused  refused
	plan     palyra.Plan
	sum      palyra.Digest // of the plan
	tool     numberedTool
	who      palyra.Proposer
	verdict  keptVerdict
	decision json.RawMessage
	keep     json.RawMessage
	bad      error // why plan, tool, proposer or verdict cannot be read
}

// refused is what ended a call that did not run.
type refused struct {
	Layer palyra.Layer `json:"layer"`
}

// desk is where rows are read, by one reader at a time, with what it knows of earlier ones.
type desk struct {
	tools     *tools
	doc       canon.Doc
	canonical []byte
	line      []byte // of the journal
	row       *canon.Known[taken[told]]
	plan      *canon.Known[taken[palyra.Plan]]
	who       *canon.Known[taken[palyra.Proposer]]
	now       told // what is being read
	whole     int  // plan and proposer, as far as they were read
}

// taken is a member that is known, to be taken over; the zero taken is one that was read where it belongs, or that
// nobody looks at.
type taken[T any] struct {
	part *part[T]
	from *T
}

// Members of a row that are objects whose members are known each.
const (
	memberPlan     = "plan"
	memberProposal = "proposal"
)

func newDesk(tools *tools) *desk {
	d := &desk{tools: tools}
	d.plan = canon.NewKnown(taking(planParts, &d.now.plan), nil)
	d.who = canon.NewKnown(taking(proposerParts, &d.now.who), nil)
	d.row = canon.NewKnown(taking(map[string]*part[told]{
		"plan_digest": partOf(func(t *told) *palyra.Digest { return &t.digest }, canon.ReadWord),
		"tool":        partOf(func(t *told) *numberedTool { return &t.tool }, d.readTool),
		"verdict":     partOf(func(t *told) *keptVerdict { return &t.verdict }, readVerdict),
		"decision":    partOf(func(t *told) *json.RawMessage { return &t.decision }, readRaw),
		"keep":        partOf(func(t *told) *json.RawMessage { return &t.keep }, readRaw),
	}, &d.now), d.within)
	return d
}

// taking reads members where they belong, and those that are kept into a value of their own.
func taking[T any](parts map[string]*part[T], to *T) func(string, canon.Value, bool) (taken[T], error) {
	return func(name string, v canon.Value, kept bool) (taken[T], error) {
		var t taken[T]
		one := parts[name]
		if one == nil {
			return t, nil
		}
		var r canon.Reader
		at := to
		if kept {
			at = new(T)
			t = taken[T]{one, at}
		}
		one.read(&r, v, at)
		return t, r.Err()
	}
}

// takeOver takes over what is known.
func takeOver[T any](members []canon.KnownMember[taken[T]], to *T) {
	for i := range members {
		if t := &members[i].Value; t.from != nil {
			t.part.take(to, t.from)
		}
	}
}

func (d *desk) readTool(r *canon.Reader, v canon.Value, to *numberedTool) {
	t, err := d.tools.read([]byte(v.Raw()))
	if err != nil {
		r.Fail(err)
		return
	}
	*to = t
}

func readVerdict(r *canon.Reader, v canon.Value, to *keptVerdict) {
	if err := to.read([]byte(v.Raw())); err != nil {
		r.Fail(err)
	}
}

// within reads plan and proposal, each as a document of its own.
func (d *desk) within(name, text string, at int) (end int, ok bool) {
	var err error
	switch name {
	case memberPlan:
		if end, err = d.plan.Read(text, at, 1); err == nil {
			takeOver(d.plan.Members(), &d.now.plan)
			d.canonical = d.plan.AppendCanonical(d.canonical[:0])
			d.now.sum = palyra.PlanDigest(d.canonical)
			d.whole |= 1
		}
	case memberProposal:
		if end, err = d.who.Read(text, at, 1); err == nil {
			takeOver(d.who.Members(), &d.now.who)
			d.whole |= 2
		}
	default:
		return 0, false
	}
	return end, err == nil
}

// read reads a row. One that is not written as all are is read part by part, and so is one that something is wrong
// with, which then is found again.
func (d *desk) read(row run.Past) (*told, error) {
	var err error
	if !d.known(string(row.Doc)) {
		err = d.slowly(row.Doc)
	}
	if err == nil {
		err = readIf(row.Outcome, &d.now.refused)
	}
	return &d.now, err
}

// known reads a row that is whole and written as encoding/json writes it.
func (d *desk) known(text string) bool {
	d.now, d.whole = told{}, 0
	end, err := d.row.Read(text, 0, 1)
	if err != nil || end != len(text) || d.whole != 3 {
		return false
	}
	takeOver(d.row.Members(), &d.now)
	return d.now.tool.Name != "" // else there may be none
}

// slowly reads a row part by part.
func (d *desk) slowly(doc []byte) error {
	d.now = told{}
	t, parts := &d.now, map[string][]byte{}
	if !canon.Members(doc, func(name string, value []byte) { parts[name] = value }) {
		return errors.New("past: a row is an object")
	}
	t.decision, t.keep = parts["decision"], parts["keep"]
	t.bad = errors.Join(d.part(parts[memberPlan], d.wholePlan), d.part(parts["tool"], d.wholeTool),
		d.part(parts[memberProposal], d.wholeProposer), t.verdict.read(parts["verdict"]))
	return readIf(parts["plan_digest"], &t.digest)
}

// part reads a part of a row as a document of its own.
func (d *desk) part(raw []byte, read func() error) error {
	if err := d.doc.Read(string(raw)); err != nil {
		return err
	}
	return read()
}

func (d *desk) wholePlan() error {
	d.canonical = d.doc.AppendCanonical(d.canonical[:0])
	d.now.sum = palyra.PlanDigest(d.canonical)
	return ReadJudgedPlan(d.doc.Root(), &d.now.plan)
}

func (d *desk) wholeTool() error {
	var r canon.Reader
	d.readTool(&r, d.doc.Root(), &d.now.tool)
	return r.Err()
}

func (d *desk) wholeProposer() error { return judgedProposer(d.doc.Root(), &d.now.who) }
