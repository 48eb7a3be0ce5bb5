package palyra

import (
	"errors"
	"fmt"
	"time"
)

// Code classes an error. Three tables map codes to RPC statuses and exit codes.
type Code string

// The codes. An error without one is Internal.
const (
	Invalid     Code = "invalid"
	Denied      Code = "denied"
	Expired     Code = "expired"
	NotFound    Code = "not_found"
	Conflict    Code = "conflict"
	Exhausted   Code = "exhausted"
	Unavailable Code = "unavailable"
	Internal    Code = "internal"
)

// Codes lists every code once.
func Codes() []Code {
	return []Code{Invalid, Denied, Expired, NotFound, Conflict, Exhausted, Unavailable, Internal}
}

// Error is an error a person can act on: what class, which rule, why, what to do. Text must be free of secrets: it
// goes to callers, journals and terminals.
type Error struct {
	Code   Code
	Reason Reason // machine-readable, stable
	Text   string
	Remedy string
	After  time.Duration // of Exhausted: when to try again; 0: nobody knows
	Cause  error         // kept for errors.Is; never shown to callers
}

// Errorf makes an Error with a formatted text.
func Errorf(code Code, reason Reason, format string, args ...any) *Error {
	return &Error{Code: code, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// WithRemedy returns e with the remedy set.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	c := *e
	c.Remedy = fmt.Sprintf(format, args...)
	return &c
}

// WithCause returns e wrapping err.
func (e *Error) WithCause(err error) *Error {
	c := *e
	c.Cause = err
	return &c
}

// WithAfter returns e with the time after which to try again.
func (e *Error) WithAfter(d time.Duration) *Error {
	c := *e
	c.After = d
	return &c
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf returns the code of the first Error in err's chain, else Internal. Of no error it is empty.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// AsError returns the first Error in err's chain, or wraps err as Internal with a text that gives nothing away.
func AsError(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Reason: ReasonInternal, Text: "internal error", Remedy: "see the daemon's log", Cause: err}
}

// Layer says which part refused a call.
type Layer string

// The layers, in the order a call meets them.
const (
	LayerDoor     Layer = "door"
	LayerCatalog  Layer = "catalog"
	LayerPlan     Layer = "plan"
	LayerPolicy   Layer = "policy"
	LayerApproval Layer = "approval"
	LayerGrant    Layer = "grant"
	LayerTier     Layer = "tier"
	LayerEgress   Layer = "egress"
	LayerLimit    Layer = "limit"
	LayerJournal  Layer = "journal"
)

// Refusal is why a call did not run. It is an outcome, not a Go error.
type Refusal struct {
	Layer    Layer    `json:"layer"`
	Code     Code     `json:"code"`
	Reason   Reason   `json:"reason_code"`
	Text     string   `json:"reason"`
	Remedy   string   `json:"remedy,omitempty"`
	Policies []string `json:"policies,omitempty"`
}

// RefusalOf turns an error of a layer into a refusal.
func RefusalOf(layer Layer, err error) Refusal {
	e := AsError(err)
	return Refusal{Layer: layer, Code: e.Code, Reason: e.Reason, Text: e.Text, Remedy: e.Remedy}
}

// Reason is a stable, machine-readable reason code.
type Reason string

// The reasons. They are part of the protocol: never reuse a name.
const (
	ReasonInternal           Reason = "internal"
	ReasonMalformedInput     Reason = "malformed_input"
	ReasonInputTooLarge      Reason = "input_too_large"
	ReasonSchemaMismatch     Reason = "schema_mismatch"
	ReasonUnknownTool        Reason = "unknown_tool"
	ReasonToolDisabled       Reason = "tool_disabled"
	ReasonBudgetSpent        Reason = "budget_spent"
	ReasonPathOutside        Reason = "path_outside_workspace"
	ReasonPathInvalid        Reason = "path_invalid"
	ReasonNotRegularFile     Reason = "not_a_regular_file"
	ReasonFileNotFound       Reason = "file_not_found"
	ReasonFileTooLarge       Reason = "file_too_large"
	ReasonPatchMismatch      Reason = "patch_mismatch"
	ReasonWorkspaceDenied    Reason = "workspace_denied"
	ReasonPlanChanged        Reason = "plan_changed"
	ReasonPolicyDenied       Reason = "policy_denied"
	ReasonPolicyError        Reason = "policy_error"
	ReasonApprovalDenied     Reason = "approval_denied"
	ReasonApprovalExpired    Reason = "approval_expired"
	ReasonApprovalFailed     Reason = "approval_failed"
	ReasonApprovalNotAwaited Reason = "approval_not_awaited"
	ReasonNotObserving       Reason = "not_observing"
	ReasonTooManyPending     Reason = "too_many_pending"
	ReasonQuestionBytes      Reason = "question_bytes_spent"
	ReasonRecentlyDenied     Reason = "recently_denied"
	ReasonAlreadyDecided     Reason = "already_decided"
	ReasonStaleDigest        Reason = "stale_digest"
	ReasonAgentMayNotDecide  Reason = "agent_may_not_decide"
	ReasonRequesterDecides   Reason = "requester_may_not_decide"
	ReasonBadSignature       Reason = "bad_signature"
	ReasonSignatureRefused   Reason = "signature_refused" // a request to sign does not say, in full, what its key is bound to
	ReasonReplayedSignature  Reason = "replayed_signature"
	ReasonStaleSignature     Reason = "stale_signature"
	ReasonPasskeyCopied      Reason = "passkey_copied"   // its authenticator has counted on somewhere else
	ReasonInsecureChannel    Reason = "insecure_channel" // what was signed came over plain HTTP from beyond this machine
	ReasonSignatureRequired  Reason = "signature_required"
	ReasonUnknownKey         Reason = "unknown_key"
	ReasonNoCredential       Reason = "no_credential"
	ReasonBadCredential      Reason = "bad_credential"
	ReasonForeignUID         Reason = "foreign_uid"
	ReasonPermission         Reason = "permission_denied"
	ReasonGrantRevoked       Reason = "grant_revoked"
	ReasonGrantSpent         Reason = "grant_spent"
	ReasonTimedOut           Reason = "timed_out"
	ReasonCancelled          Reason = "cancelled"
	ReasonInterrupted        Reason = "interrupted"
	ReasonJournalUnavailable Reason = "journal_unavailable"
	ReasonDiskFull           Reason = "disk_full"
	ReasonSessionClosed      Reason = "session_closed"
	ReasonNotFound           Reason = "not_found"
	ReasonExists             Reason = "already_exists"
	ReasonStopping           Reason = "daemon_stopping"
	ReasonSecondDaemon       Reason = "second_daemon"
	ReasonStateGone          Reason = "state_gone"
	ReasonConfig             Reason = "bad_config"
	ReasonUnsafePermissions  Reason = "unsafe_permissions"
	ReasonUnsupported        Reason = "unsupported_platform"
	ReasonDisabled           Reason = "disabled"
	ReasonRateLimited        Reason = "rate_limited"
	ReasonBusy               Reason = "busy"
	ReasonLastOwner          Reason = "last_owner"
	ReasonIdempotencyReused  Reason = "idempotency_key_reused"
	ReasonVerifyFailed       Reason = "verification_failed"
	ReasonEgressDenied       Reason = "egress_denied"
	ReasonQuotaExceeded      Reason = "quota_exceeded"
	ReasonSpawnFailed        Reason = "spawn_failed"
	ReasonNotExecutable      Reason = "not_executable"
	ReasonEnvDenied          Reason = "env_denied"
	ReasonStdinDenied        Reason = "stdin_denied"
	ReasonTierUnavailable    Reason = "tier_unavailable"
	ReasonWeakEnforcement    Reason = "weak_enforcement"
	ReasonRunEnded           Reason = "run_ended"
	ReasonBadScript          Reason = "bad_script"
	ReasonBadProfile         Reason = "bad_profile"
	ReasonSealDenied         Reason = "seal_denied"
	ReasonInputChanged       Reason = "input_changed"
	ReasonSealedCommitted    Reason = "sealed_path_committed"
	ReasonEffectsConflict    Reason = "effects_conflict"
	ReasonEffectsLost        Reason = "effects_lost"
	ReasonEffectsDropped     Reason = "effects_dropped"
	ReasonPosture            Reason = "posture_insufficient"
	ReasonFetchFailed        Reason = "fetch_failed"
	ReasonPairingWrongCode   Reason = "pairing_wrong_code"
	ReasonPairingExpired     Reason = "pairing_expired"
	ReasonPairingLocked      Reason = "pairing_locked"
	ReasonPairingRefused     Reason = "pairing_refused"
	ReasonPairingBusy        Reason = "pairing_busy"
	ReasonPairingBroken      Reason = "pairing_broken"
	ReasonPairingImpostor    Reason = "pairing_impostor"
	ReasonDeviceRevoked      Reason = "device_revoked"
	ReasonDeviceRequired     Reason = "device_required"
	ReasonBadCertificate     Reason = "bad_certificate"
	ReasonForeignOrigin      Reason = "foreign_origin"
	ReasonScopeDenied        Reason = "scope_denied"
	ReasonPortDenied         Reason = "port_denied"
	ReasonLoginFailed        Reason = "login_failed"
	ReasonNoModel            Reason = "no_model"
	ReasonModelKey           Reason = "model_key_refused"
	ReasonModelNotFound      Reason = "model_not_found"
	ReasonModelContext       Reason = "model_context_too_long"
	ReasonModelUnreachable   Reason = "model_unreachable"
	ReasonModelOverloaded    Reason = "model_overloaded"
	ReasonModelRefused       Reason = "model_refused"
	ReasonModelFailed        Reason = "model_failed"
	ReasonUpstreamFailed     Reason = "upstream_failed"
	ReasonQuarantined        Reason = "tool_quarantined"
	ReasonVaultLocked        Reason = "vault_locked"
	ReasonVaultDamaged       Reason = "vault_damaged"
	ReasonSecretExpired      Reason = "secret_expired"
)
