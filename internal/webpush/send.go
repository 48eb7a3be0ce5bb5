package webpush

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	maxAnswer = 4 << 10
	maxAfter  = time.Hour
)

// Message is one to send.
type Message struct {
	Text  []byte
	Keep  time.Duration // how long the service keeps it for a browser that is away
	Topic string        // at most 32 letters and digits; a later message of the same takes the place of one that waits
}

// RefusedError is a service that did not take a message.
type RefusedError struct {
	Status int
	After  time.Duration // it asks to be left alone for that long
}

// Error says what the service answered, and nothing of what it wrote.
func (e *RefusedError) Error() string { return fmt.Sprintf("the push service answered %d", e.Status) }

// Gone reports whether the subscription is no more.
func (e *RefusedError) Gone() bool {
	return e.Status == http.StatusNotFound || e.Status == http.StatusGone
}

// Send sends a message as the one with a key. An error of it does not name the endpoint.
func Send(ctx context.Context, c *http.Client, k *Key, to Subscription, m Message, now time.Time) error {
	origin, err := to.Origin()
	if err != nil {
		return fmt.Errorf("webpush: %w", err)
	}
	body, err := to.Seal(m.Text)
	if err != nil {
		return err
	}
	auth, err := k.Authorization(origin.String(), now)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Endpoint, bytes.NewReader(body))
	if err != nil {
		return errors.New("webpush: the address cannot be asked")
	}
	for name, value := range map[string]string{
		"Authorization": auth, "Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream", "Topic": m.Topic,
		"TTL": strconv.FormatInt(int64(m.Keep/time.Second), 10), "Urgency": "high", "User-Agent": "palyra",
	} {
		req.Header.Set(name, value)
	}
	res, err := c.Do(req)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) { // which names the endpoint
			err = u.Err
		}
		return fmt.Errorf("the push service was not reached: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	if res.StatusCode/100 != 2 {
		return &RefusedError{Status: res.StatusCode, After: after(res.Header.Get("Retry-After"), now)}
	}
	return nil
}

// after reads Retry-After, which is a number of seconds or a date.
func after(s string, now time.Time) time.Duration {
	d := time.Duration(0)
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(s); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), maxAfter)
}
