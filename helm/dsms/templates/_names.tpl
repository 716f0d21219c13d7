{{- define "dsms.name" -}}
{{- if contains "dsms" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-dsms" (.Release.Name | trunc 45 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "dsms.selector" -}}
app.kubernetes.io/name: dsms
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dsms.labels" -}}
{{ include "dsms.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "dsms.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "dsms.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "dsms.lease" -}}
{{ include "dsms.name" . }}-coordinator
{{- end }}

{{- define "dsms.coordinatorUrl" -}}
{{ ternary "https" "http" (ne .Values.api.tlsSecret "") }}://{{ include "dsms.name" . }}-coordinator:{{ .Values.api.port }}
{{- end }}
