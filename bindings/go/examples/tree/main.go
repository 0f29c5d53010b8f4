// SPDX-License-Identifier: Apache-2.0

// Lends a tree of files, or fetches one. The other side may be xfer_tree or python -m xfer as well.
//
//	tree serve DIR [--listen URI]    lends DIR until it is interrupted, and prints the URI for fetch
//	tree fetch URI DEST              brings a server's tree to DEST, which is new or empty
//
// With --key FILE both sides have a secret of 32 to 256 bytes, which serving beyond this host needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"xfer"
)

var errUsage = errors.New("usage: tree serve DIR [--listen URI] [--key FILE] | tree fetch URI DEST [--key FILE]")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tree:", err)
		if ctx.Err() != nil {
			os.Exit(130) // as a shell tells of an interrupt
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("tree", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	listen := flags.String("listen", "tcp://127.0.0.1:0", "")
	keyFile := flags.String("key", "", "")
	var words []string
	for rest := arguments; len(rest) > 0; rest = rest[1:] { // options stand anywhere
		if flags.Parse(rest) != nil {
			return errUsage
		}
		if rest = flags.Args(); len(rest) == 0 {
			break
		}
		words = append(words, rest[0])
	}
	options := xfer.Options{Set: map[string]string{"checksum": "yes"}} // what is fetched is verified
	var err error
	if *keyFile != "" {
		if options.Key, err = os.ReadFile(*keyFile); err != nil {
			return err
		}
	}
	engine, err := xfer.Open(options)
	if err != nil {
		return err
	}
	defer engine.Close()
	switch {
	case len(words) == 2 && words[0] == "serve":
		return serve(ctx, engine, words[1], *listen, out)
	case len(words) == 3 && words[0] == "fetch":
		return get(ctx, engine, words[1], words[2], out)
	}
	return errUsage
}

func serve(ctx context.Context, engine *xfer.Engine, root, listen string, out io.Writer) error {
	l, err := lend(engine, root)
	if err != nil {
		return err
	}
	defer l.Close()
	uri, err := engine.Listen(listen, xfer.ListenOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving %s of %s\nlistening at %s\n", l.tree, root, uri)
	<-ctx.Done()
	return nil
}

func get(ctx context.Context, engine *xfer.Engine, uri, destination string, out io.Writer) error {
	began := time.Now()
	t, err := fetch(ctx, engine, uri, destination, bar(os.Stderr))
	if err == nil {
		fmt.Fprintf(out, "fetched %s in %.2f s\n", t, time.Since(began).Seconds())
	}
	return err
}
