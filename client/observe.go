package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// Observation is until when calls of agents' own tools are observed and not held, and who said so.
type Observation = palyra.Observation

// Observation says whether calls are observed now.
func (c *Client) Observation(ctx context.Context) (Observation, error) {
	res, err := c.observe().GetObservation(ctx, &v1.GetObservationRequest{})
	return word[Observation](res.GetObservation(), err)
}

// SetObservation has calls observed for a time from now on; with none they are held from now on. It takes a signature.
func (c *Client) SetObservation(ctx context.Context, span time.Duration) (Observation, error) {
	res, err := c.observe().SetObservation(ctx, &v1.SetObservationRequest{Span: durationpb.New(span)})
	return word[Observation](res.GetObservation(), err)
}
