package palyra

// Reversal is what is done about what a call changed.
type Reversal string

// The reversals.
const (
	ReversalUndo   Reversal = "undo"   // what it replaced is put back
	ReversalRedo   Reversal = "redo"   // an undo is taken back
	ReversalForget Reversal = "forget" // what it replaced is not kept any longer
)

// ReversalResult is what became of a reversal.
type ReversalResult string

// The results of a reversal.
const (
	ReversalBegun  ReversalResult = "begun"  // nothing has changed yet
	ReversalDone   ReversalResult = "done"   // all of it was done
	ReversalFailed ReversalResult = "failed" // nothing was, or only a part
)

// CallReverted says that somebody takes back what a call changed. An undo or a redo has two lines: one that is
// durable before anything changes, and one that says what became of it. A first one without a second was cut off by
// a crash; what had begun is finished when the daemon starts again.
type CallReverted struct {
	Call      CallID         `json:"call_id"`
	By        Principal      `json:"by"`
	Reversal  Reversal       `json:"reversal"`
	Result    ReversalResult `json:"result"`
	List      Digest         `json:"list_sha256,omitempty"` // of what the call changed
	Through   CallID         `json:"through,omitempty"`     // the call that does it, where an agent asked for it
	Paths     int64          `json:"paths,omitempty"`       // that are other ones now
	Reason    Reason         `json:"reason_code,omitempty"`
	Signature Signature      `json:"signature,omitzero"`
}

// Kind implements Event.
func (CallReverted) Kind() string { return "call.reverted" }
