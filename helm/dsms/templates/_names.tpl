{{- /* The name of the application in labels. */}}
{{- define "dsms.application" -}}
{{ .Values.nameOverride | default "dsms" }}
{{- end }}

{{- /* With what the names of all objects begin. */}}
{{- define "dsms.name" -}}
{{- $application := include "dsms.application" . }}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $application .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" (.Release.Name | trunc 45 | trimSuffix "-") $application | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "dsms.selector" -}}
app.kubernetes.io/name: {{ include "dsms.application" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of the pods that Spark creates. They differ from those of the release's own pods, so that its Services and
       its main NetworkPolicy do not select them. */}}
{{- define "dsms.sparkSelector" -}}
app.kubernetes.io/name: {{ include "dsms.application" . }}-spark
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dsms.labels" -}}
{{- with omit (.Values.commonLabels | default dict) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/component" "helm.sh/chart" }}
{{- toYaml . }}
{{ end }}
{{- include "dsms.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "dsms.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "dsms.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The number of fragments over which new queries are distributed: the maximum number of executors. */}}
{{- define "dsms.fragments" -}}
{{- $auto := .Values.executor.autoscaling | default dict }}
{{- if and $auto.enabled (gt (int $auto.minReplicas) (int $auto.maxReplicas)) }}
{{- fail "executor.autoscaling.minReplicas must be at most maxReplicas" }}
{{- end }}
{{- ternary $auto.maxReplicas .Values.executor.replicas ($auto.enabled | default false) }}
{{- end }}

{{/* The minimum number of executors. */}}
{{- define "dsms.leastExecutors" -}}
{{- $auto := .Values.executor.autoscaling | default dict }}
{{- ternary $auto.minReplicas .Values.executor.replicas ($auto.enabled | default false) }}
{{- end }}

{{- define "dsms.lease" -}}
{{ include "dsms.name" . }}-coordinator
{{- end }}

{{/* The names under which clients may call the coordinator: the names of its Service that contain a dot, and api.hosts.
     Names without a dot are always accepted. */}}
{{- define "dsms.hosts" -}}
{{- $service := printf "%s-coordinator.%s" (include "dsms.name" .) .Release.Namespace }}
{{- $outside := list }}
{{- range list .Values.api.ingress .Values.api.route }}
{{- if (. | default dict).enabled }}
{{- $outside = concat $outside .hosts }}
{{- end }}
{{- end }}
{{- printf "%s %s.svc %s.svc.%s %s %s" $service $service $service .Values.api.clusterDomain .Values.api.hosts (join " " (uniq $outside)) | trim }}
{{- end }}

{{- define "dsms.coordinatorUrl" -}}
{{ ternary "https" "http" (ne .Values.api.tlsSecret "") }}://{{ include "dsms.name" . }}-coordinator:{{ .Values.api.port }}
{{- end }}
