// Wakes the sensor that the detector chooses, once per second, and reports changes on the serial port.
#include <mfbocd.h>

static mfbocd_t detector;

// Replace this with the code that wakes sensor f, reads it and puts it to sleep again; NAN if it does not answer.
static float read_sensor(int f) { return analogRead(f == 0 ? A0 : A1) * (5.0f / 1023.0f); }

void setup() {
  Serial.begin(115200);
  mfbocd_init(&detector);
}

void loop() {
  int f = mfbocd_choose(&detector);
  mfbocd_step_t step = mfbocd_update(&detector, read_sensor(f), f);
  if (step.alarm) {
    Serial.print("changed at tick ");
    Serial.print((unsigned long)step.changed_at);
    Serial.print(", probability ");
    Serial.println((double)step.confidence, 3);
  }
  delay(1000);
}
