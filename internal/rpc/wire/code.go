package wire

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// codes is the one table between our codes and the protocol's statuses.
var codes = []struct {
	code   palyra.Code
	status connect.Code
}{
	{palyra.Invalid, connect.CodeInvalidArgument},
	{palyra.Denied, connect.CodePermissionDenied},
	{palyra.Expired, connect.CodeFailedPrecondition},
	{palyra.NotFound, connect.CodeNotFound},
	{palyra.Conflict, connect.CodeAborted},
	{palyra.Exhausted, connect.CodeResourceExhausted},
	{palyra.Unavailable, connect.CodeUnavailable},
	{palyra.Internal, connect.CodeInternal},
}

// StatusOf returns the protocol's status for a code; an unknown one is internal.
func StatusOf(c palyra.Code) connect.Code {
	for _, row := range codes {
		if row.code == c {
			return row.status
		}
	}
	return connect.CodeInternal
}

// ToStatus turns an error into what a caller may see: the code, the reason, the
// text and the remedy. Whatever is not a *palyra.Error says only "internal".
func ToStatus(err error) *connect.Error {
	e := palyra.AsError(err)
	ce := connect.NewError(StatusOf(e.Code), errors.New(e.Text))
	detail, derr := connect.NewErrorDetail(&v1.ErrorDetail{
		Code: string(e.Code), ReasonCode: string(e.Reason), Remedy: e.Remedy,
		RetryAfterMs: (e.After + time.Millisecond - 1).Milliseconds(),
	})
	if derr == nil {
		ce.AddDetail(detail)
	}
	if e.After > 0 {
		ce.Meta().Set("Retry-After", strconv.FormatInt(max(1, int64(math.Ceil(e.After.Seconds()))), 10))
	}
	return ce
}

// FromStatus turns an error of the protocol back into ours. Errors that the
// protocol's own machinery made carry no detail; the status gives their class.
func FromStatus(err error) *palyra.Error {
	if e := (*palyra.Error)(nil); errors.As(err, &e) {
		return e
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return palyra.AsError(err)
	}
	for _, d := range ce.Details() {
		v, derr := d.Value()
		if derr != nil {
			continue
		}
		if det, ok := v.(*v1.ErrorDetail); ok && knownCode(palyra.Code(det.GetCode())) {
			return &palyra.Error{
				Code: palyra.Code(det.GetCode()), Reason: palyra.Reason(det.GetReasonCode()),
				Text: ce.Message(), Remedy: det.GetRemedy(), After: time.Duration(det.GetRetryAfterMs()) * time.Millisecond, Cause: ended(ce),
			}
		}
	}
	code, reason := bare(ce.Code())
	return &palyra.Error{Code: code, Reason: reason, Text: ce.Message(), Cause: ended(ce)}
}

// ended keeps errors.Is(err, context.Canceled) true across the wire.
func ended(ce *connect.Error) error {
	switch ce.Code() {
	case connect.CodeCanceled:
		return context.Canceled
	case connect.CodeDeadlineExceeded:
		return context.DeadlineExceeded
	}
	return ce
}

// bare classes a status without a detail.
func bare(c connect.Code) (palyra.Code, palyra.Reason) {
	switch c {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return palyra.Invalid, palyra.ReasonMalformedInput
	case connect.CodeResourceExhausted:
		return palyra.Exhausted, palyra.ReasonInputTooLarge
	case connect.CodeCanceled:
		return palyra.Expired, palyra.ReasonCancelled
	case connect.CodeDeadlineExceeded:
		return palyra.Expired, palyra.ReasonTimedOut
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return palyra.Denied, palyra.ReasonPermission
	case connect.CodeUnimplemented, connect.CodeNotFound:
		return palyra.NotFound, palyra.ReasonNotFound
	case connect.CodeUnavailable:
		return palyra.Unavailable, palyra.ReasonStopping
	}
	return palyra.Internal, palyra.ReasonInternal
}

func knownCode(c palyra.Code) bool {
	for _, row := range codes {
		if row.code == c {
			return true
		}
	}
	return false
}
