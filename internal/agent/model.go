package agent

import (
	"context"
	"encoding/json"

	"palyra"
)

// Model speaks the protocol of a model's API. It keeps nothing between questions.
type Model interface {
	// Ask sends a conversation, passes on the pieces of text as they come, and returns the answer once it is whole. It
	// asks once: a Fault says why there is no answer, and the loop decides whether to ask again. An error of say is
	// returned as it is.
	Ask(ctx context.Context, q Question, say func(piece string) error) (Answer, error)
}

// Question is what a model is asked: to go on from the last exchange, of which only Heard is set.
type Question struct {
	Model     string
	System    string
	Tools     []Offer
	Talk      []Exchange
	MaxTokens int64 // of the answer
}

// Offer is a tool as a model sees it.
type Offer struct {
	Name        string // as models spell it
	Description string
	Schema      json.RawMessage // a JSON Schema object
}

// Exchange is one step of a conversation: what the model heard and what it said.
type Exchange struct {
	Heard Heard `json:"heard"`
	Said  Said  `json:"said"`
}

// Heard is what a model is told: what became of the calls it asked for last, all of them, and what people say.
type Heard struct {
	Results []Result `json:"results,omitempty"`
	Texts   []string `json:"texts,omitempty"`
}

// Result is what became of a call, in words for a model.
type Result struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// Said is what a model says: text, calls, or both.
type Said struct {
	Text  string `json:"text,omitempty"`
	Calls []Wish `json:"calls,omitempty"`
}

// Wish is a call that a model asks for. ID is ours: it is the same in every question, whoever is asked.
type Wish struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`           // as models spell it
	Tool      string          `json:"tool,omitempty"` // as we do
	Arguments json.RawMessage `json:"arguments"`
	Bad       string          `json:"bad,omitempty"` // why it cannot be made
}

// Stop is why a model stopped.
type Stop string

// The reasons to stop.
const (
	StopDone     Stop = "done"     // it has said what it had to, or wants its calls made
	StopLength   Stop = "length"   // the answer is as long as it may be
	StopDeclined Stop = "declined" // it, or a filter, will not answer
)

// Answer is what a model answered. The calls' arguments are as they came.
type Answer struct {
	Text   string
	Calls  []Asked
	Stop   Stop
	Tokens palyra.Tokens
}

// Asked is a call as it came from a model: nothing about it is known to be true.
type Asked struct {
	Name      string
	Arguments string
}
