package palyra

// Finding is a difference between the journal and the tables that follow from it.
type Finding struct {
	Seq int64  `json:"seq"` // of the line that a table contradicts; 0: there is none
	Why string `json:"why"`
}
