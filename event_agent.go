package palyra

// AgentAdded names an agent and its owner.
type AgentAdded struct {
	Agent     Agent     `json:"agent"`
	Token     string    `json:"token_id,omitempty"` // made of the credential's digest; says nothing about it
	Signature Signature `json:"signature"`
}

// AgentRemoved ends an agent's credential.
type AgentRemoved struct {
	Principal Principal `json:"principal"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// OperatorAdded makes a signing key known. The first one of a state has no signature: it is made together with the state.
type OperatorAdded struct {
	Operator  Operator   `json:"operator"`
	Signature *Signature `json:"signature,omitempty"`
}

// OperatorRemoved ends a signing key.
type OperatorRemoved struct {
	KeyID     string    `json:"key_id"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// Kind implements Event.
func (AgentAdded) Kind() string      { return "agent.added" }
func (AgentRemoved) Kind() string    { return "agent.removed" }
func (OperatorAdded) Kind() string   { return "operator.added" }
func (OperatorRemoved) Kind() string { return "operator.removed" }
