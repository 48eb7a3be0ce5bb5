package notify

import (
	"context"
	"fmt"
	"html"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"

	"palyra"
	"palyra/internal/sessionbus"
)

// The desktop's own service for notices.
const (
	desktopService = "org.freedesktop.Notifications"
	desktopPath    = dbus.ObjectPath("/org/freedesktop/Notifications")
	desktopNotify  = desktopService + ".Notify"
	desktopCan     = desktopService + ".GetCapabilities"
	bodyMarkup     = "body-markup" // the text of a notice is read as markup there
)

// Desktop tells on the desktop of this session. Its notices have no buttons: nothing can be decided there.
type Desktop struct{}

// greet is how long a bus may take to say who it is.
const greet = 5 * time.Second

// Urgencies of the desktop's notices.
const (
	urgencyNormal   byte = 1
	urgencyCritical byte = 2
)

// Tell implements Way. Each notice has a connection of its own: a bus that ended with its session is not missed.
func (Desktop) Tell(ctx context.Context, n Notice) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	bus, err := sessionbus.Dial(ctx, greet)
	if err != nil {
		return err
	}
	defer func() { _ = bus.Close() }()
	urgency := urgencyNormal
	if n.Risk.Rank() >= palyra.RiskHigh.Rank() {
		urgency = urgencyCritical
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(urgency), "category": dbus.MakeVariant("im.received")}
	const staysAsLongAsUsual = int32(-1)
	desktop, can, text := bus.Object(desktopService, desktopPath), []string(nil), n.Text
	if err := desktop.CallWithContext(ctx, desktopCan, 0).Store(&can); err != nil {
		return fmt.Errorf("the desktop shows no notices: %w", err)
	}
	if slices.Contains(can, bodyMarkup) {
		text = html.EscapeString(text)
	}
	call := desktop.CallWithContext(ctx, desktopNotify, 0,
		"Palyra", uint32(0), "dialog-question", "Palyra: an answer is waited for", text, []string{}, hints, staysAsLongAsUsual)
	if call.Err != nil {
		return fmt.Errorf("the desktop does not show it: %w", call.Err)
	}
	return nil
}
