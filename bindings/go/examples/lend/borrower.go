// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"xfer"
)

// loan is content that a lender lends, until Close or the lender's end.
type loan struct {
	length uint64
	ref    xfer.Ref
	ep     *xfer.Endpoint
	held   io.Closer // the response of HTTP, which stays open
}

// borrow asks a lender. The context is that of the whole loan.
func borrow(ctx context.Context, engine *xfer.Engine, url string) (*loan, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	l, err := accept(engine, response)
	if err != nil {
		response.Body.Close()
		return nil, err
	}
	return l, nil
}

func accept(engine *xfer.Engine, response *http.Response) (*loan, error) {
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the lender answers: %s", response.Status)
	}
	var told offer
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil {
		return nil, err
	}
	ref, err := xfer.ParseRef(told.Ref)
	if err != nil {
		return nil, err
	}
	ep, err := engine.Dial(told.URI, xfer.DialOptions{})
	if err != nil {
		return nil, err
	}
	return &loan{told.Length, ref, ep, response.Body}, nil
}

// read reads from an offset of the content; xfer.ErrRevoked when the loan has ended.
func (l *loan) read(ctx context.Context, memory []byte, offset uint64) error {
	return l.ep.Get(ctx, memory, l.ref, offset)
}

// Close gives the content back, by disconnecting.
func (l *loan) Close() error {
	l.held.Close()
	return l.ep.Close()
}

// fetch borrows all of a content for as long as it takes to read it.
func fetch(ctx context.Context, engine *xfer.Engine, url string) ([]byte, error) {
	l, err := borrow(ctx, engine, url)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	content := make([]byte, l.length)
	return content, l.read(ctx, content, 0)
}
