// Package journal serves JournalService: people read the journal, have it checked, and take evidence away.
package journal

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// Log is the log.
type Log interface {
	// Entries returns the first entries that the query picks.
	Entries(ctx context.Context, q palyra.EntryFilter) ([]palyra.Entry, error)
	// Watch calls f with every entry from a sequence number on, first what is
	// there, then what arrives, without a gap, until ctx ends or f fails.
	Watch(ctx context.Context, from int64, f func(palyra.Entry) error) error
	// Head returns the signed checkpoint.
	Head(ctx context.Context) (wire.Head, error)
	// Proof returns a self-contained proof of an entry, as JSON.
	Proof(ctx context.Context, seq int64) (json.RawMessage, error)
	// Export writes a sealed segment; to 0 means up to the head. That it leaves is journaled.
	Export(ctx context.Context, w io.Writer, from, to int64, by palyra.Principal) error
	// Verify checks the whole log. A damaged one is a report, not an error.
	Verify(ctx context.Context, progress func(done, total int64)) (wire.Report, error)
}

// Service serves JournalService.
type Service struct{ journal Log }

// New returns the service.
func New(j Log) *Service { return &Service{j} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewJournalServiceHandler(s, opts...)
}

// page is how many entries are read at a time.
const page = 256

// TailJournal implements the method.
func (s *Service) TailJournal(ctx context.Context, req *v1.TailJournalRequest, stream *connect.ServerStream[v1.TailJournalResponse]) error {
	if req.GetFrom() < 0 || req.GetLimit() < 0 {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "from and limit may not be negative")
	}
	head, err := s.journal.Head(ctx)
	if err != nil {
		return err
	}
	t := &tail{journal: s.journal, req: req, left: req.GetLimit(), send: func(e palyra.Entry) error {
		m := &v1.TailJournalResponse{Entry: &v1.Entry{}}
		if err := wire.FromWord(e, m.GetEntry()); err != nil {
			return err
		}
		return stream.Send(m)
	}}
	if err := stream.Send(nil); err != nil { // headers: the tail is on
		return err
	}
	if req.GetFollow() {
		return t.follow(ctx, head.Size)
	}
	return t.history(ctx, head.Size)
}

// VerifyJournal implements the method.
func (s *Service) VerifyJournal(ctx context.Context, _ *v1.VerifyJournalRequest,
	stream *connect.ServerStream[v1.VerifyJournalResponse],
) error {
	r, err := s.journal.Verify(ctx, func(done, total int64) {
		_ = stream.Send(&v1.VerifyJournalResponse{Event: &v1.VerifyJournalResponse_Progress{
			Progress: &v1.Progress{Done: done, Total: total},
		}})
	})
	if err != nil {
		return err
	}
	m := &v1.Report{}
	if err := wire.FromWord(r, m); err != nil {
		return err
	}
	return stream.Send(&v1.VerifyJournalResponse{Event: &v1.VerifyJournalResponse_Report{Report: m}})
}

// ExportJournal implements the method.
func (s *Service) ExportJournal(ctx context.Context, req *v1.ExportJournalRequest,
	stream *connect.ServerStream[v1.ExportJournalResponse],
) error {
	w := wire.Chunks(func(b []byte) error { return stream.Send(&v1.ExportJournalResponse{Chunk: b}) })
	if err := s.journal.Export(ctx, w, req.GetFrom(), req.GetTo(), rpc.CallerOf(ctx).Principal); err != nil {
		return err
	}
	return w.Flush()
}

// GetProof implements the method.
func (s *Service) GetProof(ctx context.Context, req *v1.GetProofRequest) (*v1.GetProofResponse, error) {
	p, err := s.journal.Proof(ctx, req.GetSeq())
	return &v1.GetProofResponse{Proof: string(p)}, err
}

// GetHead implements the method.
func (s *Service) GetHead(ctx context.Context, _ *v1.GetHeadRequest) (*v1.GetHeadResponse, error) {
	h, err := s.journal.Head(ctx)
	res := &v1.GetHeadResponse{Head: &v1.Head{}}
	return wire.Answer(res, res.GetHead(), h, err)
}
