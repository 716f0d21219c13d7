// Command control-plane is Kubernetes' API server and its controller manager in one program: the first argument,
// or the name it is called by, says which.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if len(os.Args) > 1 && components[os.Args[1]] != nil {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	component, found := components[name]
	if !found {
		fmt.Fprintln(os.Stderr, "the first argument must be kube-apiserver or kube-controller-manager")
		os.Exit(2)
	}
	os.Exit(cli.Run(component()))
}
