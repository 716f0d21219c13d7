{{- /* The addresses of Kafka and Redis: those of the values, or of the single nodes in the release. */}}
{{- define "dsms.kafka" -}}
{{- $single := .Values.kafka.single | default dict }}
{{- if and $single.enabled .Values.kafka.bootstrap }}
{{- fail "kafka.bootstrap and kafka.single.enabled are both set: choose one" }}
{{- end }}
{{- if $single.enabled }}
{{- printf "%s-kafka:9092" (include "dsms.name" .) }}
{{- else }}
{{- required "kafka.bootstrap is needed: HOST:PORT of Kafka; or kafka.single.enabled, for a trial" .Values.kafka.bootstrap }}
{{- end }}
{{- end }}

{{- define "dsms.redis" -}}
{{- $single := .Values.redis.single | default dict }}
{{- if and $single.enabled (or .Values.redis.url .Values.redis.urlSecret.name) }}
{{- fail "redis.single.enabled and redis.url or redis.urlSecret are both set: choose one" }}
{{- end }}
{{- if $single.enabled }}
{{- printf "redis://%s-redis:6379/0" (include "dsms.name" .) }}
{{- else }}
{{- required "redis.url or redis.urlSecret is needed: the URL of Redis; or redis.single.enabled, for a trial" .Values.redis.url }}
{{- end }}
{{- end }}

{{- /* The Service of a single node; takes the root, its component, and its port. */}}
{{- define "dsms.singleService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "dsms.name" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  {{- include "dsms.annotations" (dict "root" .root) | nindent 2 }}
  labels:
    {{- include "dsms.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  selector:
    {{- include "dsms.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  ports:
    - name: {{ .component }}
      port: {{ .port }}
      targetPort: {{ .component }}
      protocol: TCP
{{- end }}

{{- /* The StatefulSet of a single node up to its container; takes the root, its component, its port, and its values. */}}
{{- define "dsms.singleSet" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ include "dsms.name" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  {{- include "dsms.annotations" (dict "root" .root) | nindent 2 }}
  labels:
    {{- include "dsms.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: 1
  serviceName: {{ include "dsms.name" .root }}-{{ .component }}
  selector:
    matchLabels:
      {{- include "dsms.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  {{- if .values.persistent }}
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: Retain
    whenScaled: Retain
  volumeClaimTemplates:
    - metadata:
        name: data
        {{- with .values.annotations }}
        annotations:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .values.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ .values.size }}
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "dsms.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 30
      securityContext:
        {{- include "dsms.podSecurity" .root | nindent 8 }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            sizeLimit: 256Mi
        {{- if not .values.persistent }}
        - name: data
          emptyDir:
            sizeLimit: {{ .values.size }}
        {{- end }}
        {{- with .volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}

{{- /* What all containers of single nodes contain; takes the root, its component, its port, and its values. */}}
{{- define "dsms.singleContainer" -}}
image: {{ required (printf "%s.single.image is needed" .component) .values.image }}
imagePullPolicy: IfNotPresent
env:
  {{- include "dsms.podFacts" .root | nindent 2 }}
  - name: LISTEN
    value: {{ .root.Values.listenAddress | quote }}
ports:
  - name: {{ .component }}
    containerPort: {{ .port }}
    protocol: TCP
startupProbe:
  tcpSocket: {port: {{ .component }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  tcpSocket: {port: {{ .component }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  tcpSocket: {port: {{ .component }}}
  periodSeconds: 2
  failureThreshold: 3
resources:
  {{- toYaml .values.resources | nindent 2 }}
securityContext:
  {{- include "dsms.containerSecurity" .root | nindent 2 }}
{{- end }}
